"""Metrics, logs, recent decisions, and the health of the runtime."""
