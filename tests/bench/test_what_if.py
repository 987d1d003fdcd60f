"""``make bench-what-if`` in small: the command answers, and rightly."""

from __future__ import annotations

from bench.core.what_if import Scale, ask, phases, served


def test_the_command_answers() -> None:
    with served(Scale(nodes=5, pods=20, waiting=3)) as kubeconfig:
        cost = ask(kubeconfig)
        phases(str(kubeconfig))
    assert cost.fit == 5 * 40 - 20
    assert cost.cpu > 0
