"""What the panels' queries are made of."""

from shipping.grafana import Query

HERE = 'job=~"$job",instance=~"$instance"'
PROFILE = f'{HERE},profile=~"$profile"'
ATTEMPTS = "scheduler_schedule_attempts_total"
SCHEDULED = f'{PROFILE},result="scheduled"'
# A standby fills the same queue and schedules nothing from it: only the leader's counts.
LEADING = 'unless on (job, instance) (leader_election_master_status{job=~"$job"} == 0)'


def rate(metric: str, selector: str = HERE) -> str:
    """How much a counter grows each second."""
    return f"rate({metric}{{{selector}}}[$__rate_interval])"


def quantiles(
    metric: str, by: str = "", selector: str = HERE, of: tuple[float, ...] = (0.5, 0.9, 0.99)
) -> tuple[Query, ...]:
    """Quantiles of a histogram over all instances, one series for each value of `by`."""
    labels = f"le, {by}" if by else "le"
    buckets = f"sum by ({labels}) ({rate(f'{metric}_bucket', selector)})"
    return tuple(
        Query(
            f"histogram_quantile({q}, {buckets})",
            f"p{q * 100:g} {{{{{by}}}}}" if by else f"p{q * 100:g}",
        )
        for q in of
    )
