"""Speed end to end: Equipoise and kube-scheduler in turn, on one real API server."""
