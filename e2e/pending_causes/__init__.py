"""Why pods wait: fifteen causes on a real control plane, and what two schedulers say of each.

- `scene`: the cluster and what runs in it.
- `causes`: the pods that wait, each for another cause.
- `collecting`: what kube-scheduler and Equipoise say of them.
- `page`: the table in docs/why-pending.md.
"""
