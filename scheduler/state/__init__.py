"""The cluster as columns: one row per node, one array per thing that filters and scores read.

- `cache`: the cluster as the scheduler knows it: nodes, and pods on them, ahead of the API server.
- `columns`: arrays over node rows, and the shapes that cross the plugin boundary.
- `labels`: node labels as columns of value ids, made when a selector first asks for a key.
- `interning`: small integers for big values, so that columns can hold and compare them.
- `row_values`: one big value per row, such as its taints, interned; unused ones are dropped.
- `occupancy`: sparse facts about rows: host ports and disks in use, claims in use, images present.
- `attachments`: volumes attached to each row, and how many a row may have: the arrays behind volume
  limits.
- `podindex`: which pods are where, by label: the counters behind inter-pod affinity and topology
  spread.
- `partition`: rows put into parts, such as the nodes of each zone, and sums over them.
- `objects`: objects that plugins look up: volumes, claims, classes, services, controllers, budgets.
- `nominations`: nominated pods: waiting pods for which preemption has chosen a node and evicted its
  victims.
- `aspects`: the aspects that a change touches, and the log of the rows in which it touched them.
- `bundle`: pods of one node that a trial removes and returns together.
- `scratch`: changes to the state that are reverted at the end, to evaluate a what-if.
- `nodes_on_trial`: nodes and other objects that are changed or added on trial, and put back.
- `checker`: compares the columns with the objects of the API server.
"""
