"""Churn on NUMA nodes in virtual time: the real scheduler core, emulated kubelets, no server.

``python -m tests.numa.churn --seeds 10`` prints how the reserve cache compares with none, and with
perfect knowledge.
"""
