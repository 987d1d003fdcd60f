"""DefaultPreemption: evicts pods of lower priority for a pod that fits nowhere.

- `plugin`: DefaultPreemption: whether a pod may preempt, the candidate nodes, the choice among
  them.
- `screen`: finds nodes without room even without all pods of lower priority, before any dry run.
- `dry_run`: the search for nodes where evictions help: which nodes get a dry run, and in which
  order.
- `trial`: the dry run: which pods of lower priority must be evicted for a pod to fit on some nodes.
- `candidates`: nodes where evictions make room for a pod, and which of them is chosen.
- `budgets`: which evictions violate a PodDisruptionBudget.
- `evictions`: carries out preemptions in the background.
"""
