"""The row of the dashboard about backlogs that are placed at once."""

from shipping.grafana import Panel, Query, Row
from shipping.queries import HERE, quantiles, rate

BATCH = Row(
    "Batches",
    (
        Panel(
            "Backlogs by result",
            "Solved at once; uncontended and greedy: one by one was as good; nowhere: none took "
            "part; failed: the solver did.",
            (Query(f"sum by (result) ({rate('equipoise_batch_tiers_total')})", "{{result}}"),),
            unit="ops",
            empty_until="batch.enabled is true and a backlog comes",
        ),
        Panel(
            "Pods of backlogs",
            "Placed at once, or left to the normal cycle.",
            (Query(f"sum by (outcome) ({rate('equipoise_batch_pods_total')})", "{{outcome}}"),),
            unit="ops",
            empty_until="batch.enabled is true and a backlog comes",
        ),
        Panel(
            "Time to solve",
            "From posing a problem to its solution.",
            quantiles("equipoise_batch_solve_duration_seconds"),
            unit="s",
            empty_until="batch.enabled is true and pods contend",
        ),
        Panel(
            "Time to compare",
            "Trying a solution and one by one, to keep the better; batch.compare: false saves it.",
            quantiles("equipoise_batch_compare_duration_seconds"),
            unit="s",
            empty_until="batch.enabled is true and pods contend",
        ),
        Panel(
            "Arcs of the last network",
            "Between classes of pods, domains and nodes.",
            (Query(f"max(equipoise_batch_arcs{{{HERE}}})", "arcs"),),
        ),
        Panel(
            "Refused placements, rounds",
            "What filters did not confirm of what the solver proposed, and problems solved.",
            (
                Query(f"sum({rate('equipoise_batch_refused_total')})", "refused/s"),
                Query(f"sum({rate('equipoise_batch_rounds_total')})", "rounds/s"),
            ),
            unit="ops",
        ),
        Panel(
            "Pods that took no part",
            "By reason; they take the normal cycle.",
            (
                Query(
                    f"sum by (reason) ({rate('equipoise_batch_excluded_pods_total')})",
                    "{{reason}}",
                ),
            ),
            unit="ops",
            empty_until="a pod with volumes to bind, claims or the like is in a backlog",
        ),
        Panel(
            "Solver failures",
            "By reason; pods are then placed one by one.",
            (
                Query(
                    f"sum by (reason) ({rate('equipoise_batch_solver_failures_total')})",
                    "{{reason}}",
                ),
            ),
            unit="ops",
            empty_until="the solver fails, which it should not",
        ),
    ),
    folded=True,
)
