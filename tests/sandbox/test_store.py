"""History: the past can be listed and replayed until it is compacted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import ApiFailure
from sandbox.store import ObjectTable, Store

Writes = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40)


def write(table: ObjectTable, name: str, present: bool) -> None:
    if present:
        table.put(("", name), {"metadata": {"name": name}})
    elif table.get(("", name)):
        table.remove(("", name))


def state(table: ObjectTable, revision: int | None = None) -> list[tuple[str, int]]:
    return [(version.key[1], version.revision) for version in table.list_at(revision)]


@given(Writes)
def test_every_past_state_can_be_listed(writes: list[tuple[str, bool]]) -> None:
    store = Store()
    table = store.table("things")
    seen = {store.revision: state(table)}
    for name, present in writes:
        write(table, name, present)
        seen[store.revision] = state(table)
    assert {revision: state(table, revision) for revision in seen} == seen


@given(Writes, st.integers(1, 5))
def test_replaying_the_log_leads_to_the_present(
    writes: list[tuple[str, bool]], history: int
) -> None:
    """From each revision that is still readable, and from no other."""
    store = Store(history)
    table = store.table("things")
    past = {store.revision: state(table)}
    for name, present in writes:
        write(table, name, present)
        past[store.revision] = state(table)
    for revision, then in past.items():
        if revision < table.floor:
            with pytest.raises(ApiFailure, match="too old"):
                table.position_after(revision)
            continue
        replayed = dict(then)
        for change in table.changes(table.position_after(revision)) or ():
            if change.after is None:
                del replayed[change.key[1]]
            else:
                replayed[change.key[1]] = change.after.revision
        assert sorted(replayed.items()) == state(table)


def test_a_trimmed_log_keeps_the_promised_history() -> None:
    store = Store(history=3)
    table = store.table("things")
    for _ in range(20):
        write(table, "a", True)
        assert store.revision - table.floor >= 3 or table.floor == 1


def test_the_future_cannot_be_listed() -> None:
    store = Store()
    with pytest.raises(ApiFailure) as raised:
        store.table("things").list_at(store.revision + 1)
    assert raised.value.code == 504
