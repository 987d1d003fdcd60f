"""Equipoise: a secondary Kubernetes scheduler."""

__version__ = "0.1.0"
