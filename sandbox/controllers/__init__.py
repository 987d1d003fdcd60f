"""Small controllers for the playground: what a real cluster's controller manager does for users.

They read and write a `Registry` in its own process and follow its change log, so they never poll.

- `manager`: all controllers, as a playground runs them.
- `loop`: one task that plays all controllers: reads changes, queues what they concern, backs off.
- `ownership`: who owns whom, by uid, over all kinds.
- `garbage`: deletes what has lost its owners; cascades in the foreground, orphans.
- `templates`: pods made from a template, and what a controller sees of them.
- `conditions`: conditions of a status, with the times at which they changed.
- `recorder`: Events of the controllers.
- `replica_sets`: keeps as many pods as a ReplicaSet asks for.
- `deployments`: rolls a Deployment out by ReplicaSets, one for each template.
- `stateful_sets`: pods with stable names, in their order.
- `daemon_sets`: a pod for each node that a DaemonSet matches.
- `jobs`: runs pods to completion.
- `disruption_budgets`: how many pods of a PodDisruptionBudget may be disrupted.
- `resource_claims`: claims of pods: made from templates, given back when their pods have ended.
"""
