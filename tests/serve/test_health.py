"""The text of health reports, as kube-apiserver words it."""

import pytest

from scheduler.serve.health import PING, Check, report

SICK = Check("informer-sync", lambda: "3 informers not synced")


def broken() -> str | None:
    raise KeyError("lease")


def test_healthy_says_ok_and_nothing_else() -> None:
    assert report("livez", [PING]).body == "ok"


def test_verbose_lists_the_checks_in_order() -> None:
    outcome = report("readyz", [PING, Check("shutdown", lambda: None)], verbose=True)
    assert outcome.healthy
    assert outcome.body == "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n"


@pytest.mark.parametrize("verbose", [False, True])
def test_failure_is_always_verbose_and_withholds_the_reason(verbose: bool) -> None:
    outcome = report("readyz", [PING, SICK], verbose=verbose)
    assert not outcome.healthy
    assert outcome.body == (
        "[+]ping ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n"
    )


def test_excluded_checks_are_not_run() -> None:
    outcome = report("readyz", [PING, SICK], exclude=["informer-sync"], verbose=True)
    assert outcome.healthy
    assert outcome.body == "[+]ping ok\n[+]informer-sync excluded: ok\nreadyz check passed\n"


def test_unknown_exclusions_are_named_sorted() -> None:
    outcome = report("livez", [PING], exclude=["b", "a"], verbose=True)
    assert outcome.body == (
        "[+]ping ok\n"
        'warn: some health checks cannot be excluded: no matches for "a","b"\n'
        "livez check passed\n"
    )


def test_a_check_that_raises_is_a_check_that_fails() -> None:
    check = Check("leader-election", broken)
    assert check.failure() == "KeyError: 'lease'"
    assert not report("livez", [check]).healthy
