"""NUMA: which pods a kubelet's Topology Manager will take, and what is left in each cell.

- `plugin`: NodeResourceTopologyMatch: filters nodes whose kubelet would refuse the pod, and scores
  the rest.
- `cell_facts`: what is asked of one cell and what is free, for explanations.
- `cell_view`: cells for people: what is reserved against what the node reports.
- `filtering`: which nodes' cells can take what a pod needs, for many nodes at once, and why others
  cannot.
- `scoring`: scores by cells, with scheduler-plugins' formulas.
- `cells`: NUMA cells as columns: (resource, cell, row), the rows being those of the cluster state.
- `topology`: a NodeResourceTopology object as the scheduler understands it: cells, policy,
  fingerprint.
- `cell_cache`: what the plugin asks about cells: one protocol, and the ways to keep them.
- `ledger`: the ledger of one node with cells: the object in use, and the pods that it counts or
  does not.
- `life_cycle`: the life cycle of a ledger as data: what its object and its pods are, and what
  changes that.
- `node_pods`: the pods of a node with cells, and what a published object says about them.
- `fingerprint`: the pod fingerprint: one short text for the set of pods that an agent saw on its
  node.
- `capacity`: the capacity of one node's cells: what its object says, less the pods it does not
  count yet.
- `admission`: which pods a node's kubelet is certain to admit, whatever it did with those not
  confirmed yet.
"""
