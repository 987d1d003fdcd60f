"""Plugins in other processes: webhooks of our own protocol, and kube-scheduler's extenders."""
