"""Values: Kubernetes objects as a scheduler reads them, quantities, selectors, verdicts.

- `objects`: every watched kind in one table, and how their structs are made from plain JSON.
- `meta`: what all Kubernetes objects share: metadata, selectors as written, and the struct base.
- `pods`: Pod, as a scheduler reads it.
- `podinfo`: a pod with everything a scheduler derives from it, computed once.
- `resources`: what a pod asks for: requests summed over containers as the kubelet and
  kube-scheduler sum them.
- `derived`: attributes that are computed when they are first read.
- `limits`: limits on the lists of one pod.
- `nodes`: Node, node selectors as written, and NodeResourceTopology.
- `storage`: volumes, claims, classes, CSI drivers and what they attach, as a scheduler reads them.
- `devices`: claims for devices, what drivers publish, and device classes (resource.k8s.io/v1).
- `workloads`: namespaces, controllers and policies around pods, gangs, and the leader's lease.
- `volumes`: the volumes of a pod: claims, disks, and what binds them to each other.
- `own_claims`: claims that controllers make for one pod, supposed for pods that do not exist.
- `disks`: volume sources that name a disk themselves, in pods and in PersistentVolumes.
- `csi_migration`: how CSI drivers call what in-tree volume plugins used to serve.
- `affinity`: pod affinity and topology spread as a pod states them, compiled once.
- `selectors`: label and node selectors, compiled once per pod and asked many times.
- `tolerations`: which taints a pod tolerates.
- `pinning`: what a kubelet pins for a pod: the amounts that must come from one NUMA cell, as it
  counts them.
- `quantity`: Kubernetes quantities ("250m", "1.5Gi", "1e3"), read exactly as the API machinery
  reads them.
- `amounts`: amounts of resources as Kubernetes writes quantities: exact, and rounded for people.
- `sharing`: equal parts of pods, kept once.
- `packed`: labels in one piece of memory, for objects that have very many.
- `status`: verdicts are values: what a plugin says about a pod, or about a pod on a node.
- `journal`: what a recording is told: every step that changes the state or decides.
- `events`: cluster events: what happened, in the words that queueing hints listen to.
"""
