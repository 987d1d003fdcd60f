"""Pods that wait for a node: who is next, who backs off, and what event may cure a rejection."""
