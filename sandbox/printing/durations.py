"""Ages as people read them: 5s, 3m20s, 2d4h; the rules are Kubernetes' `HumanDuration`."""

from datetime import datetime

UNKNOWN = "<unknown>"
_MINUTE, _HOUR = 60, 3600


def parsed(text: object) -> datetime | None:
    """A time of the API, with or without fractions of a second; None if it is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def age(text: object, now: datetime) -> str:
    """How long ago a time of the API was."""
    moment = parsed(text)
    return UNKNOWN if moment is None else human((now - moment).total_seconds())


def human(seconds: float) -> str:
    """A duration, the more roughly the longer it is."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes, hours = whole // _MINUTE, whole // _HOUR
    if minutes < 10:
        return _pair(minutes, "m", whole % _MINUTE, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
