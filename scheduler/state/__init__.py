"""The cluster as columns: one row per node, one array per thing that filters and scores read."""
