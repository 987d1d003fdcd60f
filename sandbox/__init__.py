"""A cluster in one process: an embedded API server, kubelets for its nodes, and work to place.

- `apiserver`: the embedded API server: HTTP in front of a `Registry`.
- `requests`: from an HTTP request to what it asks for: the addressed resource and the query's
  options.
- `resources`: which resources the embedded API server has: the built-in table, and what CRDs add to
  it.
- `registry`: the verbs of the API on the store: create, update, patch, delete, bind, by the real
  rules.
- `binding`: when a pod may be assigned to a node, and what it looks like afterwards.
- `defaulting`: what the real API server adds to an object on its way in, as far as a scheduler can
  see it.
- `validation`: validation of objects, as far as a scheduler or its tests depend on it.
- `updating`: what an update may change: status and the rest apart, system metadata never, pod specs
  hardly.
- `patching`: the three patch types: JSON merge patch, JSON patch, and Kubernetes' strategic merge
  patch.
- `deletion`: deletion in steps: grace periods, finalizers, preconditions.
- `selectors`: label and field selectors of list and watch requests, compiled to predicates on
  bodies.
- `listing`: lists: which revision, which page, and the bytes of the answer.
- `watching`: watch streams: the log of a table, read forward and filtered, one JSON line per event.
- `views`: how stored bodies look through the resource they are asked for.
- `store`: objects with their history: the part etcd and the watch cache play for a real API server.
- `errors`: refusals of the embedded API server, as the `metav1.Status` bodies clients parse.
- `reviews`: TokenReview and SubjectAccessReview: who holds which token, and who may read which
  path.
- `faults`: faults of an API server, injected by tests.
- `kubelets`: small kubelets: bound pods start to run, deleted pods go away, nodes stay alive.
- `numa`: kubelets with NUMA cells: Topology Manager, CPU, memory and device managers, and their
  NRTs.
- `workload`: nodes and pods to play with: different machines, different needs, a few that cannot be
  met.
- `demo`: the demo: an embedded cluster, a workload, the scheduler, and a screen to watch them on.
"""
