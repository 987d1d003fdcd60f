"""A cluster in one process: an embedded API server, kubelets for its nodes, and work to place."""
