"""Amounts and spans as people write them: 250m, 1.5Gi, 5m12s."""

from __future__ import annotations

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SPANS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def cpu(milli: int) -> str:
    """Milli-CPUs: below one CPU as ``250m``, above as ``1.5``."""
    return f"{milli}m" if 0 < abs(milli) < 1000 else f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def memory(count: int) -> str:
    """Bytes in the largest binary unit that keeps at least one of it, with one decimal."""
    amount, unit = float(count), 0
    # What would round up to 1024 of a unit is one of the next.
    while round(abs(amount), 1) >= 1024 and unit < len(_BINARY) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f}".removesuffix(".0") + _BINARY[unit]


def amount(resource: str, count: int) -> str:
    """A node's amount of any resource in its natural unit."""
    if resource == "cpu":
        return cpu(count)
    in_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return memory(count) if in_bytes else str(count)


def span(seconds: float) -> str:
    """A waiting time in its two largest units: ``45s``, ``5m12s``, ``3d4h``."""
    rest, parts = max(0, int(seconds)), []
    for unit, size in _SPANS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return "".join(parts[:2]) or "0s"


def duration(seconds: float) -> str:
    """How long something took, to two digits or so: ``0.4ms``, ``12ms``, ``1.3s``."""
    if seconds >= 1:
        return f"{seconds:.1f}s"
    milli = seconds * 1000
    return f"{milli:.0f}ms" if milli >= 10 else f"{milli:.1f}ms"
