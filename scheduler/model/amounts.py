"""Amounts of resources as Kubernetes writes quantities: exact for programs, rounded for people."""

from __future__ import annotations

from functools import lru_cache

from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_HUGEPAGES = "hugepages-"


def in_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes."""
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(_HUGEPAGES)


@lru_cache(maxsize=4096)
def exact(resource: str, amount: int) -> str:
    """An amount as a quantity that reads back as the same amount: ``1500m``, ``6Gi``, ``3``."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if not in_bytes(resource) or not amount:
        return str(amount)
    unit = 0
    while amount % 1024 == 0 and unit < len(_BINARY) - 1:
        amount, unit = amount // 1024, unit + 1
    return f"{amount}{_BINARY[unit]}"


@lru_cache(maxsize=4096)
def rounded(resource: str, amount: int) -> str:
    """An amount with three or four digits: ``1.5``, ``62.8Gi``."""
    if resource == CPU:
        return exact(resource, amount) if abs(amount) < 1000 else f"{amount / 1000:.4g}"
    if not in_bytes(resource):
        return str(amount)
    size, unit = float(amount), 0
    while abs(size) >= 1000 and unit < len(_BINARY) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.3g}{_BINARY[unit]}"


def distinct(resource: str, asked: int, free: int) -> tuple[str, str]:
    """Two different amounts for people: exact where rounding would make them the same."""
    short = rounded(resource, asked), rounded(resource, free)
    return short if short[0] != short[1] else (exact(resource, asked), exact(resource, free))
