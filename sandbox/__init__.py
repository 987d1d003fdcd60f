"""A cluster in one process: an embedded API server, kubelets for its nodes, and work to place.

- `apiserver`: the embedded API server: HTTP in front of a `Registry`.
- `requests`: from an HTTP request to what it asks for: the addressed resource and the query's
  options.
- `media_types`: representations: what a client accepts, and what of it this server has.
- `representations`: the forms in which objects are shown: whole, as rows of a table, or their
  metadata alone.
- `printing`: the columns that `kubectl get` shows, as the real server computes them.
- `protobuf`: the wire format: fields of messages, read and written.
- `protobuf_bodies`: request bodies in protobuf, which newer kubectls send.
- `discovery`: which groups, versions and resources there are, in the two forms clients ask for.
- `resources`: which resources the embedded API server has: the built-in table, and what CRDs add to
  it.
- `schemas`: the OpenAPI v3 schemas of the served kinds.
- `openapi`: these schemas as OpenAPI v3 documents.
- `openapi_v2`: the same as OpenAPI v2 in protobuf, for older clients.
- `registry`: the verbs of the API on the store: create, update, patch, delete, bind, by the real
  rules.
- `binding`: when a pod may be assigned to a node, and what it looks like afterwards.
- `eviction`: a deletion that a PodDisruptionBudget may refuse.
- `scaling`: the scale subresource: the number of replicas of any kind that has one.
- `defaulting`: what the real API server adds to an object on its way in, as far as a scheduler can
  see it.
- `workload_defaults`: the defaults of kinds that make pods, of templates, services and secrets.
- `field_validation`: unknown fields and wrong types, when a request asks for it.
- `field_errors`: what is wrong with a field, in the words of the real server.
- `validation`: validation of objects, as far as a scheduler or its tests depend on it.
- `updating`: what an update may change: status and the rest apart, system metadata never, pod specs
  hardly.
- `patching`: the three patch types: JSON merge patch, JSON patch, and Kubernetes' strategic merge
  patch.
- `server_side_apply`: a configuration is merged by its fields, and conflicts are found by owner.
- `field_managers`: who owns which fields, as `metadata.managedFields` says.
- `field_sets`: the leaves of an object by their paths, and `FieldsV1`, which lists such paths.
- `structured_merge`: merging by schema: a configuration into an object, and paths out of one.
- `deletion`: deletion in steps: grace periods, finalizers, preconditions.
- `selectors`: label and field selectors of list and watch requests, compiled to predicates on
  bodies.
- `listing`: lists: which revision, which page, and the bytes of the answer.
- `tasks`: the background task of a part of the sandbox.
- `watching`: watch streams: the log of a table, read forward and filtered, one JSON line per event.
- `views`: how stored bodies look through the resource they are asked for.
- `store`: objects with their history: the part etcd and the watch cache play for a real API server.
- `errors`: refusals of the embedded API server, as the `metav1.Status` bodies clients parse.
- `reviews`: who holds which token, who may read which path, what the caller itself may do.
- `faults`: faults of an API server, injected by tests.
- `kubelets`: small kubelets: bound pods start to run, deleted pods go away, nodes stay alive.
- `controllers`: small controllers for the playground: workloads, garbage collection.
- `numa`: kubelets with NUMA cells: Topology Manager, CPU, memory and device managers, and their
  NRTs.
- `devices`: devices and claims to them: the rules of the API server, a driver for a demo.
- `workload`: nodes and pods to play with: different machines, different needs, a few that cannot be
  met.
- `demo`: the demo: an embedded cluster, a workload, the scheduler, and a screen to watch them on.
"""
