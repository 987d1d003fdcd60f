"""NUMA: which pods a kubelet's Topology Manager will take, and what is left in each cell."""
