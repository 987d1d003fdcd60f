"""Makes the webhooks and extenders of a configuration, and adds them to profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from scheduler.config.extenders import endpoint_of as extender_endpoint
from scheduler.config.extenders import in_order
from scheduler.config.loading import Configuration
from scheduler.config.plugins import Enabled
from scheduler.config.schema import Extender, Webhook
from scheduler.config.webhooks import endpoint_of as webhook_endpoint
from scheduler.model.journal import Journal
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.extension_points import Plugin
from scheduler.plugin_api.handle import Handle, PluginFactory
from scheduler.webhooks.asking import Asking
from scheduler.webhooks.caller import Caller, WebhookCalls
from scheduler.webhooks.extender import ExtenderPlugin
from scheduler.webhooks.originals import Originals
from scheduler.webhooks.plugin import WebhookPlugin
from scheduler.webhooks.recorded import RecordedAnswers, RecordedCalls
from scheduler.webhooks.views import Views

_MUTATING = frozenset(("reserve", "permit", "preBind", "bind", "postBind"))
"""Points at which something may be changed."""


class RemotePlugins:
    """All webhooks and extenders of a configuration; profiles share their connections."""

    def __init__(
        self,
        config: Configuration,
        metrics: Metrics,
        clock: Callable[[], float],
        journal: Journal | None = None,
        recorded: RecordedAnswers | None = None,
    ) -> None:
        webhooks = config.equipoise.webhooks
        self._extenders = in_order(config.scheduler.extenders)
        endpoints = [
            *map(webhook_endpoint, webhooks),
            *(extender_endpoint(name, extender) for name, extender in self._extenders),
        ]
        self._callers: dict[str, WebhookCalls] = {}
        for each in endpoints:
            if recorded is not None:
                self._callers[each.name] = RecordedCalls(each.name, recorded)
            else:
                self._callers[each.name] = Caller(each, metrics, clock=clock, journal=journal)
        self.originals: Originals | None = None
        """None without webhooks and extenders."""
        if self._callers:
            self.originals = Originals(
                frozenset(profile.scheduler_name for profile in config.scheduler.profiles),
                nodes=any(webhook.nodes == "Objects" for webhook in webhooks)
                or any(not extender.node_cache_capable for _, extender in self._extenders),
            )
        self.factories: Mapping[str, PluginFactory] = {
            **{each.name: partial(self._webhook, each) for each in webhooks},
            **{name: partial(self._extender, name, each) for name, each in self._extenders},
        }

    def joined(self, enabled: Mapping[str, Sequence[Enabled]]) -> dict[str, list[Enabled]]:
        """The plugins at each point of a profile, with extenders.

        Extenders filter and score after all plugins, and bind before them.
        """
        joined = {point: list(entries) for point, entries in enabled.items()}
        for name, extender in self._extenders:
            if extender.filter_verb and "filter" in joined:
                joined["filter"].append(Enabled(name, 1))
            if extender.prioritize_verb and "score" in joined:
                joined["score"].append(Enabled(name, extender.weight))
        binders = [Enabled(name, 1) for name, extender in self._extenders if extender.bind_verb]
        if "bind" in joined:
            joined["bind"] = [*binders, *joined["bind"]]
        return joined

    def without_mutating(
        self, enabled: Mapping[str, Sequence[Enabled]]
    ) -> dict[str, list[Enabled]]:
        """The plugins at each point, without those out of process that may change something."""
        outside = self.factories.keys()
        kept = {
            point: [each for each in entries if point not in _MUTATING or each.name not in outside]
            for point, entries in enabled.items()
        }
        if not kept.get("bind"):
            kept["bind"] = [Enabled("DefaultBinder", 1)]
        return kept

    def trimmers(self) -> list[str]:
        """The extenders that have a say in preemption, in order."""
        return [name for name, extender in self._extenders if extender.preempt_verb]

    async def close(self) -> None:
        """Close all connections."""
        for caller in self._callers.values():
            await caller.close()

    def _webhook(self, webhook: Webhook, args: Any, handle: Handle) -> Plugin:
        assert self.originals is not None, "there is a webhook"
        views = Views(webhook, self.originals, handle.state)
        asking = Asking(webhook, handle.profile, self._callers[webhook.name], views)
        return WebhookPlugin(webhook, asking, views, handle)

    def _extender(self, name: str, extender: Extender, args: Any, handle: Handle) -> Plugin:
        assert self.originals is not None, "there is an extender"
        return ExtenderPlugin(name, extender, self._callers[name], self.originals, handle)
