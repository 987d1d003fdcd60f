"""Tables: the columns that `kubectl get` shows, as the real server computes them.

- `column`: a column: its heading, and how to read its cell from an object.
- `durations`: ages as people read them: 5s, 3m20s, 2d4h.
- `pods`: the columns of pods.
- `nodes`: the columns of nodes.
- `workloads`: the columns of Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs.
- `storage`: the columns of volumes, claims, storage classes and devices.
- `events`: the columns of events.
- `others`: the columns of namespaces, services, budgets, leases and other small kinds.
- `tables`: which kind has which columns, and the `Table` of objects.
"""
