"""Named health checks, and the text in which Kubernetes components report them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from scheduler.observe.logs import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class Check:
    """A named question; `run` answers None for healthy, else what is wrong.

    `run` is called on the event loop for each probe and must be quick; raising counts as unhealthy.
    """

    name: str
    run: Callable[[], str | None]

    def failure(self) -> str | None:
        """Run the check; never raises."""
        try:
            return self.run()
        except Exception as error:
            log.error("Health check raised an exception", exc=error, check=self.name)
            return f"{type(error).__name__}: {error}"


PING = Check("ping", lambda: None)
"""Healthy whenever the event loop runs at all."""


@dataclass(frozen=True)
class HealthReport:
    """The outcome of all checks of one endpoint, with the body to answer."""

    healthy: bool
    body: str


def report(
    endpoint: str, checks: Sequence[Check], *, exclude: Collection[str] = (), verbose: bool = False
) -> HealthReport:
    """Run the checks in order and render them as kube-apiserver does.

    A failure always lists all checks but withholds the reasons: probes are open to all, so
    reasons go to the log and to the endpoint of the single check.
    """
    lines, failed = [], []
    for check in checks:
        if check.name in exclude:
            lines.append(f"[+]{check.name} excluded: ok")
        elif (reason := check.failure()) is None:
            lines.append(f"[+]{check.name} ok")
        else:
            lines.append(f"[-]{check.name} failed: reason withheld")
            failed.append((check.name, reason))
    if unknown := sorted(set(exclude) - {check.name for check in checks}):
        names = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")

    if failed:
        log.warning("Health check failed", endpoint=endpoint, failed=dict(failed))
        return HealthReport(False, "\n".join([*lines, f"{endpoint} check failed\n"]))
    if verbose:
        return HealthReport(True, "\n".join([*lines, f"{endpoint} check passed\n"]))
    return HealthReport(True, "ok")
