"""Hostile tenants and unlucky clusters against the real daemon: ``make adversity``."""
