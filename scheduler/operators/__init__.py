"""Operators of custom resources, run by the leader."""
