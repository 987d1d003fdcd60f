"""Operators of custom resources, run by the leader.

- `podgroups`: writes the status of PodGroups while this replica leads.
"""
