"""One webhook of our own protocol: its calls, as coroutines that never raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from scheduler import machine
from scheduler.config.schema import Webhook
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code
from scheduler.observe.logs import get_logger
from scheduler.webhooks.answers import Failed
from scheduler.webhooks.caller import WebhookCalls
from scheduler.webhooks.protocol import API_VERSION, PATHS, Refusal, WebhookRequest, read_answer
from scheduler.webhooks.transport import CallFailed
from scheduler.webhooks.views import Views

log = get_logger(__name__)

_ONCE = frozenset(("reserve", "permit", "preBind", "bind"))
"""Points that may change something, and are asked again only if nothing was sent."""


class Asking:
    """Asks a webhook about pods of one profile."""

    def __init__(self, webhook: Webhook, profile: str, caller: WebhookCalls, views: Views) -> None:
        self.name = webhook.name
        self._profile = profile
        self._caller = caller
        self._views = views

    async def ask(
        self,
        point: str,
        pod: PodInfo,
        *,
        names: Sequence[str] | None = None,
        node: str | None = None,
        rejections: list[Refusal] | None = None,
        rejection: Refusal | None = None,
    ) -> Any:
        """The webhook's answer, checked; `Failed` if there is none, or if it reports an error.

        ``rejections`` and ``rejection`` are verdicts of other plugins, which it is sent.
        """
        uid = str(machine.uuid4())
        body = partial(self._body, point, uid, pod, names, node, rejections, rejection)
        read: Callable[[bytes], Any] = partial(read_answer, point, asked=names or ())
        try:
            answer = await self._caller.call(
                point,
                PATHS[point],
                body,
                read,
                namespace=pod.pod.metadata.namespace,
                pod=pod.key,
                repeatable=point not in _ONCE,
            )
        except CallFailed as failure:
            log.debug("Webhook failed", webhook=self.name, point=point, pod=pod.key, exc=failure)
            return Failed(f"webhook {self.name}: {failure}")
        if answer.code == Code.ERROR.value:
            return Failed(f"webhook {self.name}: {', '.join(answer.reasons) or 'it failed'}")
        return answer

    def _body(
        self,
        point: str,
        uid: str,
        pod: PodInfo,
        names: Sequence[str] | None,
        node: str | None,
        rejections: list[Refusal] | None,
        rejection: Refusal | None,
    ) -> bytes:
        nodes: list[msgspec.Raw] | None = None
        if names is not None and self._views.shows_nodes(point):
            shown = (self._views.node(point, name) for name in names)
            nodes = [node for node in shown if node is not None]
        request = WebhookRequest(
            api_version=API_VERSION,
            point=point,
            uid=uid,
            profile=self._profile,
            pod=self._views.pod(point, pod),
            node_names=list(names) if names is not None else None,
            nodes=nodes,
            node=node,
            rejections=rejections,
            rejection=rejection,
        )
        return msgspec.json.encode(request)
