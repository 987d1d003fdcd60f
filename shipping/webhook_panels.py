"""The panels about webhooks and extenders."""

from shipping.grafana import Panel, Query, Row
from shipping.queries import HERE, quantiles, rate

_CALLS = "equipoise_webhook_duration_seconds"
_NEVER = "a webhook or an extender is configured"

WEBHOOKS = Row(
    "Webhooks and extenders",
    (
        Panel(
            "Calls by result",
            "Anything but success is a failure; the runbook of the alert explains the words.",
            (
                Query(
                    f"sum by (webhook, result) ({rate(f'{_CALLS}_count')})",
                    "{{webhook}}: {{result}}",
                ),
            ),
            unit="ops",
            empty_until=_NEVER,
        ),
        Panel(
            "Time of a call, p99",
            "With its retries and its wait for a free slot; by webhook and extension point.",
            quantiles(_CALLS, "webhook, point", of=(0.99,)),
            unit="s",
            empty_until=_NEVER,
        ),
        Panel(
            "Calls in flight, and repeated",
            "How many are under way, and how many a second are made again after a failure.",
            (
                Query(
                    f"sum by (webhook) (equipoise_webhook_in_flight{{{HERE}}})",
                    "{{webhook}} in flight",
                ),
                Query(
                    f"sum by (webhook) ({rate('equipoise_webhook_retries_total')})",
                    "{{webhook}} repeated",
                ),
            ),
            empty_until=_NEVER,
        ),
        Panel(
            "Circuit breakers",
            "0: calls are made. 1: one call tries. 2: nothing is sent after too many failures.",
            (
                Query(
                    f"max by (webhook) (equipoise_webhook_breaker_state{{{HERE}}})", "{{webhook}}"
                ),
            ),
            empty_until=_NEVER,
        ),
        Panel(
            "Suspended pods",
            "Pods whose attempt waits for an answer, and pods put back because too many do.",
            (
                Query(f"sum(equipoise_webhook_suspended_pods{{{HERE}}})", "suspended"),
                Query(f"sum({rate('equipoise_webhook_postponed_pods_total')})", "put back/s"),
            ),
        ),
    ),
    folded=True,
)
