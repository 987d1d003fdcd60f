"""The demo: an embedded cluster, a workload, the scheduler, and a screen to watch them on.

- `session`: runs the demo: the embedded API server, its kubelets, the workload, and the real
  daemon.
- `screen`: the live screen of the demo: nodes, queue, latest decisions.
"""
