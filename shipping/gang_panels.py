"""The dashboard's row about gangs."""

from shipping.grafana import Panel, Query, Row
from shipping.queries import HERE, LEADING, quantiles, rate

GANGS = Row(
    "Gangs",
    (
        Panel(
            "Groups by phase",
            "PodGroups; those in Scheduling have enough members and not enough room.",
            (Query(f"sum by (phase) (equipoise_gang_groups{{{HERE}}} {LEADING})", "{{phase}}"),),
            empty_until="there are PodGroups",
        ),
        Panel(
            "Passes by result",
            "Attempts to place a gang; unplaced ones were undone as a whole.",
            (Query(f"sum by (result) ({rate('equipoise_gang_passes_total')})", "{{result}}"),),
            unit="ops",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Time until whole",
            "From when enough members existed until all of them had nodes.",
            quantiles("equipoise_gang_placement_duration_seconds"),
            unit="s",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Time of a pass, p99",
            "Nothing else is done meanwhile: large gangs of pods that differ make others wait.",
            quantiles("equipoise_gang_pass_duration_seconds", of=(0.99,)),
            unit="s",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Pods that wait for members",
            "They hold nodes, for as long as their group's scheduleTimeoutSeconds says.",
            (Query(f"sum(equipoise_gang_pods_waiting{{{HERE}}} {LEADING})", "pods"),),
        ),
    ),
    folded=True,
)
