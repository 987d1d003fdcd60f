"""Answers of webhooks and extenders: understood, or refused with the field."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from scheduler.webhooks.extender_protocol import (
    read_binding,
    read_filter,
    read_preemption,
    read_priorities,
)
from scheduler.webhooks.protocol import PATHS, allowed_codes, read_answer, status_of
from tests.fuzz import words
from tests.fuzz.mutating import as_text, encoded, mutate_bytes, mutate_object
from tests.fuzz.target import Input, as_bytes

Json = dict[str, Any]
READERS: dict[str, Callable[[bytes], Any]] = {
    "filter": lambda body: read_filter(body, items=4),
    "whole": lambda body: read_filter(body, items=4, whole=True),
    "prioritize": lambda body: read_priorities(body, items=4),
    "bind": read_binding,
    "preempt": lambda body: read_preemption(body, items=4),
}


class RemoteAnswers:
    """Reads one answer."""

    name = "webhooks"
    what = "answers of webhooks and extenders: understood, or refused with a message"
    share = 150

    def draw(self, rng: Random) -> Input:
        """An answer at some point, mostly mutated."""
        if rng.random() < 0.6:
            who = f"webhook {rng.choice(list(PATHS))}"
            body: Any = _webhook(rng, who.partition(" ")[2])
        else:
            who = f"extender {rng.choice(list(READERS))}"
            body = _extender(rng, who.partition(" ")[2])
        if rng.random() < 0.8 and body:
            body = mutate_object(rng, body)
        if rng.random() < 0.1:
            return [who, mutate_bytes(rng, encoded(body)).decode("latin-1")]
        return [who, as_text(body)]

    def check(self, given: Input) -> list[str]:
        """Only what callers expect is raised, and it says something."""
        who, text = given
        side, _, what = who.partition(" ")
        try:
            if side == "extender":
                READERS[what](as_bytes(text))
                return []
            answer = read_answer(what, as_bytes(text), words.NODES)
            status = status_of(answer, "hook")
        except (ValueError, RecursionError) as fault:
            return [] if str(fault) else ["an answer is refused without a word"]
        if answer.code not in allowed_codes(what):
            return [f"an answer has the code {answer.code!r}, which makes no sense there"]
        if sum(map(len, status.reasons)) > 100_000:
            return ["the reasons of an answer are not shortened"]
        return []

    def close(self) -> None:
        """Nothing is held."""


def _webhook(rng: Random, point: str) -> Json:
    body: Json = {"code": rng.choice(allowed_codes(point)), "reasons": ["no room", "a\nb"]}
    some = rng.sample(words.NODES, 2)
    match point:
        case "filter":
            body["rejected"] = {n: {"code": "Unschedulable", "reasons": ["x"]} for n in some}
        case "score":
            body["scores"] = {n: rng.randint(0, 100) for n in some}
        case "preFilter":
            body["nodeNames"] = some
        case "postFilter":
            body["nominatedNode"] = some[0]
        case "queueSort":
            body["key"] = rng.choice((0.5, 1, -3))
        case "permit" | "preEnqueue":
            body["retryAfterSeconds"] = 5
            body["timeoutSeconds"] = 1.5
    return body


def _extender(rng: Random, verb: str) -> Any:
    some = rng.sample(words.NODES, 2)
    match verb:
        case "prioritize":
            return [{"Host": n, "Score": rng.randint(0, 10)} for n in some]
        case "bind":
            return {"Error": rng.choice(("", "no"))}
        case "preempt":
            victims = {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}
            return {"NodeNameToMetaVictims": dict.fromkeys(some, victims)}
    nodes = {"metadata": {}, "items": [{"metadata": {"name": n}} for n in some]}
    return {"Nodes": nodes, "NodeNames": some, "FailedNodes": {some[0]: "full"}, "Error": ""}
