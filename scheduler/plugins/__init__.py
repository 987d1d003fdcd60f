"""The in-tree plugins; ``IN_TREE`` in `table` lists them all.

- `table`: all in-tree plugins, by name.
- `names`: plugin names, as configuration and verdicts spell them.
- `enqueueing`: PrioritySort and SchedulingGates: the order of the queue, and pods that are gated.
- `node_identity`: NodeName and NodeUnschedulable: the node that a pod names, and cordoned nodes.
- `taint_toleration`: TaintToleration: no pods on nodes with taints that they do not tolerate.
- `node_affinity`: NodeAffinity: nodeSelector, required and preferred node affinity.
- `node_ports`: NodePorts: a host port belongs to one pod per node and address.
- `node_resources_fit`: NodeResourcesFit: what a pod requests is free, and how full the node would
  be.
- `balanced_allocation`: NodeResourcesBalancedAllocation: prefer nodes whose resources would be used
  evenly.
- `image_locality`: ImageLocality: prefers nodes that have the pod's images.
- `node_declared_features`: NodeDeclaredFeatures: what a pod asks for that not every kubelet can do.
- `node_conditions`: NodeConditions: no pods on nodes with bad conditions.
- `service_affinity`: ServiceAffinity: pods of a service stay together, on nodes with the same
  values of some labels.
- `topology_spread`: PodTopologySpread: pods of one kind are kept evenly spread over zones, racks,
  nodes.
- `topology_spread_domains`: the topology domains that a spread constraint speaks of, and the pods
  in them.
- `inter_pod_affinity`: InterPodAffinity: pods that want to be near others, or away from them.
- `inter_pod_affinity_hints`: which events may cure a pod that inter-pod affinity keeps waiting.
- `volume_binding`: VolumeBinding: filters nodes where a pod's claims cannot be satisfied, and binds
  the claims.
- `volume_restrictions`: VolumeRestrictions: some disks and claims belong to one pod at a time.
- `volume_zone`: VolumeZone: a volume with zone or region labels is only good for nodes with the
  same.
- `node_volume_limits`: NodeVolumeLimits: a node can attach only so many volumes of a CSI driver.
- `dynamic_resources`: DynamicResources: keeps pods that claim devices from running without them.
- `preemption`: DefaultPreemption: evicts pods of lower priority for a pod that fits nowhere.
- `default_binder`: DefaultBinder: creates the Binding.
- `allocation`: scores from how much of a node's resources would be taken.
- `waiting_requests`: what all waiting pods request, as a table, for the hint of NodeResourcesFit.
- `default_selector`: which pods belong together with a pod, by its services and its controller.
- `volumes`: what the volume plugins share, and how VolumeBinding finds and binds volumes.
"""
