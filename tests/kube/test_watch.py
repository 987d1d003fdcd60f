"""List and watch against a scripted server: every change once, in order, whatever happens."""

import asyncio
import json
import logging

import pytest

from scheduler.kube.errors import (
    Ambiguous,
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    ResourceExpired,
    ServerError,
    Silent,
    TooManyRequests,
    Unreachable,
)
from scheduler.kube.watch import OBJECTS_AT_ONCE, WatchedResource
from scheduler.model.objects import Change, Pod
from tests.daemon.support import eventually
from tests.patience import PATIENCE

from .support import sample
from .watch_support import (
    PODS,
    ScriptedServer,
    Watched,
    bookmark,
    line,
    page,
    play,
    pod,
    running,
)

OPTIONAL = WatchedResource("Pod", PODS.path, Pod, optional=True)
EXPIRED = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})

DEPTH = 100_000
"""No version of Python decodes what is nested so deeply."""


async def test_pages_are_listed_one_after_the_other_and_then_watched() -> None:
    watched, server = await play(
        [page(pod("x", 1), pod("y", 2), version=5, token="t"), page(pod("z", 3), version=5)], []
    )
    assert watched.batches == [["+x@1", "+y@2"], ["+z@3"]]
    assert watched.reflector.synced.is_set()
    assert server.list_params == [{"limit": "25"}, {"limit": "100", "continue": "t"}]
    assert server.watch_params[0] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "450",
    }


async def test_selectors_go_with_lists_and_watches() -> None:
    resource = WatchedResource("Pod", PODS.path, Pod, {"fieldSelector": "spec.nodeName="})
    _, server = await play([page()], [], resource)
    assert server.list_params[0]["fieldSelector"] == "spec.nodeName="
    assert server.watch_params[0]["fieldSelector"] == "spec.nodeName="


async def test_events_become_changes_one_batch_for_each_chunk() -> None:
    watched, _ = await play(
        [page(pod("x", 1), version=1)],
        [
            [
                line("MODIFIED", pod("x", 2)) + line("ADDED", pod("y", 3)),
                line("DELETED", pod("x", 4)),
            ]
        ],
    )
    assert watched.batches == [["+x@1"], ["x@1>2", "+y@3"], ["-x@2"]]
    assert watched.known == {"a/y": "3"}


async def test_many_small_objects_are_taken_some_at_a_time() -> None:
    some = OBJECTS_AT_ONCE
    listed = [pod(f"p{i}", 1 + i) for i in range(2 * some)]
    chunk = b"".join(line("ADDED", pod(f"q{i}", 1000 + i)) for i in range(2 * some))
    watched, _ = await play([page(*listed, version=999)], [[chunk]])
    assert [len(batch) for batch in watched.batches] == [some] * 4


async def test_a_line_may_arrive_in_pieces() -> None:
    whole = line("ADDED", pod("x", 2))
    watched, _ = await play([page(version=1)], [[whole[:10], whole[10:30], whole[30:]]])
    assert watched.reported == ["+x@2"]


async def test_an_event_that_is_already_known_changes_nothing() -> None:
    watched, _ = await play([page(pod("x", 2), version=2)], [[line("ADDED", pod("x", 2))]])
    assert watched.reported == ["+x@2"]


async def test_a_new_uid_under_the_same_name_is_a_deletion_and_an_addition() -> None:
    watched, _ = await play(
        [page(pod("x", 1, uid="one"), version=1)], [[line("ADDED", pod("x", 2, uid="two"))]]
    )
    assert watched.batches == [["+x@1"], ["-x@1", "+x@2"]]


@pytest.mark.parametrize(
    ("event", "position"),
    [
        (line("ADDED", pod("y", 7)), "7"),
        (line("DELETED", pod("x", 8)), "8"),
        (bookmark(9), "9"),
        (line("MODIFIED", {**pod("x", 10), "spec": []}), "10"),
    ],
    ids=["addition", "deletion", "bookmark", "object that does not decode"],
)
async def test_the_next_watch_begins_after_the_last_event(event: bytes, position: str) -> None:
    _, server = await play([page(pod("x", 1), version=1)], [[event]])
    assert [params["resourceVersion"] for params in server.watch_params] == ["1", position]
    assert len(server.list_params) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unreachable("down"), "unreachable"),
        (Ambiguous("reset"), "cut"),
        (TooManyRequests(429), "refused"),
        (ServerError(503), "refused"),
    ],
)
async def test_trouble_on_the_way_keeps_the_position(error: Exception, reason: str) -> None:
    watched, server = await play([page(version=1)], [[bookmark(3), error], error])
    assert [params["resourceVersion"] for params in server.watch_params] == ["1", "3", "3"]
    assert watched.restarts(reason) == 2
    assert watched.clock.slept == [0.5, 1.0]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ResourceExpired(410), "gone"),
        (Invalid(400), "refused"),
        (ServerError(504, "Timeout", "Too large resource version"), "refused"),
        (Silent("quiet"), "silent"),
    ],
)
async def test_a_position_in_doubt_leads_to_a_new_list(error: Exception, reason: str) -> None:
    watched, server = await play([page(version=1), page(version=20)], [error])
    assert len(server.list_params) == 2
    assert server.watch_params[-1]["resourceVersion"] == "20"
    assert watched.restarts(reason) == 1


async def test_after_410_the_difference_is_reported_and_nothing_else() -> None:
    same, changed, gone = pod("same", 1), pod("changed", 2), pod("gone", 3)
    replaced = pod("replaced", 4, uid="one")
    watched, _ = await play(
        [
            page(same, changed, gone, replaced, version=4),
            page(same, pod("changed", 11), pod("replaced", 12, uid="two"), pod("new", 13)),
        ],
        [[EXPIRED]],
    )
    assert watched.batches[1:] == [
        ["changed@2>11", "-replaced@4", "+replaced@12", "+new@13"],
        ["-gone@3"],
    ]
    assert watched.restarts("gone") == 1
    assert set(watched.known) == {"a/same", "a/changed", "a/replaced", "a/new"}


async def test_after_an_outage_everything_is_listed_as_soon_as_the_server_answers() -> None:
    """It has forgotten where the watch was, as an API server that was started again has."""
    down = Unreachable("down")
    watched, _ = await play([page(), page(pod("x", 1))], [down, down, down, [EXPIRED]])
    assert watched.clock.slept == [0.5, 1.0, 2.0, 0.5]
    assert watched.reported == ["+x@1"]


async def test_a_server_that_forgets_again_and_again_is_asked_ever_more_slowly() -> None:
    watched, _ = await play([page() for _ in range(5)], [[EXPIRED] for _ in range(4)])
    assert watched.clock.slept == [0.5, 1.0, 2.0, 4.0]


async def test_events_before_an_error_in_the_same_chunk_are_not_lost() -> None:
    watched, _ = await play(
        [page(version=1), page(pod("x", 2), version=2)], [[line("ADDED", pod("x", 2)) + EXPIRED]]
    )
    assert watched.reported == ["+x@2"]


async def test_an_expired_continue_token_leads_to_one_whole_list() -> None:
    watched, server = await play(
        [
            page(pod("x", 1), pod("y", 1), version=5, token="t"),
            ResourceExpired(410),
            page(pod("x", 1), pod("z", 7), version=9),
        ],
        [],
    )
    assert server.list_params[1:] == [{"limit": "100", "continue": "t"}, {}]
    assert watched.reported == ["+x@1", "+y@1", "+z@7", "-y@1"]
    assert server.watch_params[0]["resourceVersion"] == "9"


async def test_a_list_that_fails_is_begun_again() -> None:
    watched, _ = await play([Unreachable("down"), page(pod("x", 1))], [])
    assert watched.reported == ["+x@1"]
    assert watched.clock.slept == [0.5]


async def test_an_empty_list_may_be_null() -> None:
    watched, _ = await play([b'{"metadata": {"resourceVersion": "1"}, "items": null}'], [])
    assert watched.reflector.synced.is_set()


async def test_a_stream_that_ends_after_events_is_reopened_at_once() -> None:
    watched, _ = await play([page()], [[bookmark(2)], [bookmark(3)]])
    assert watched.restarts("ended") == 2
    assert watched.clock.slept == []


async def test_a_server_that_ends_streams_at_once_is_asked_ever_more_slowly() -> None:
    watched, _ = await play([page()], [[], [], [], [bookmark(2)], []])
    assert watched.clock.slept == [0.5, 1.0, 2.0, 0.5]


@pytest.mark.parametrize("garbage", [b"<html>\n", b'{"type": 5}\n', b'{"type": "ADDED"}\n'])
async def test_a_garbled_stream_is_reopened(garbage: bytes) -> None:
    watched, server = await play([page(version=1)], [[bookmark(2), garbage]])
    assert watched.restarts("garbled") == 1
    assert server.watch_params[-1]["resourceVersion"] == "2"


BROKEN = {**pod("x", 9), "spec": {"nodeName": 5}}


async def test_an_object_that_does_not_decode_is_skipped_and_others_are_not() -> None:
    watched, _ = await play([page(BROKEN, pod("y", 1))], [[line("ADDED", BROKEN)]])
    assert watched.reported == ["+y@1"]
    assert sample(watched.metrics, "equipoise_watch_decode_errors_total", kind="Pod") == 2


async def test_an_object_nested_too_deeply_is_skipped_and_others_are_not() -> None:
    deep = b'{"type": "ADDED", "object": ' + b"[" * DEPTH + b"]" * DEPTH + b"}\n"
    watched, _ = await play([page()], [[deep + line("ADDED", pod("y", 1))]])
    assert watched.reported == ["+y@1"]
    assert sample(watched.metrics, "equipoise_watch_decode_errors_total", kind="Pod") == 1


async def test_a_list_with_an_object_nested_too_deeply_has_all_others() -> None:
    deep = b'{"metadata": {"name": "deep"}, "spec": {"any": ' + b"[" * DEPTH + b"]" * DEPTH + b"}}"
    tricky = pod("x", 1, nodeName='"}],{\\"items": [\\')
    listed = page(tricky, "HERE", pod("y", 2), version=5, token="t").replace(b'"HERE"', deep)
    alone = page("HERE", version=5).replace(b'"HERE"', deep)
    watched, server = await play([listed, alone], [[line("ADDED", pod("z", 6))]])
    assert watched.reported == ["+x@1", "+y@2", "+z@6"]
    assert server.list_params[1]["continue"] == "t"
    assert watched.reflector.synced.is_set()
    assert sample(watched.metrics, "equipoise_watch_decode_errors_total", kind="Pod") == 2


@pytest.mark.parametrize("rest", [b"", b"]", b', {"metadata": 1'])
async def test_a_page_that_is_cut_within_a_deep_object_is_garbled(rest: bytes) -> None:
    cut = b'{"metadata": {"resourceVersion": "1"}, "items": [' + b"[" * DEPTH + rest
    watched, _ = await play([cut, page(pod("x", 1))], [])
    assert watched.reported == ["+x@1"]


async def test_an_earlier_good_version_stays_until_the_object_is_deleted() -> None:
    watched, _ = await play(
        [page(pod("x", 1))],
        [[line("MODIFIED", BROKEN), line("DELETED", {**BROKEN, "spec": []})]],
    )
    assert watched.reported == ["+x@1", "-x@1"]


def odd(name: str, version: int, value: bytes) -> bytes:
    """A pod with a free field that holds some JSON as it is."""
    body = json.dumps(pod(name, version, any="HERE")).encode()
    return body.replace(b'"HERE"', value)


def event(type_: str, body: bytes) -> bytes:
    return b'{"type": "%s", "object": %s}\n' % (type_.encode(), body)


DEEP = b"[" * DEPTH + b"]" * DEPTH


async def test_the_deletion_of_an_object_nested_too_deeply_is_not_lost() -> None:
    lines = [event("MODIFIED", odd("x", 2, DEEP)), event("DELETED", odd("x", 3, DEEP))]
    watched, server = await play([page(pod("x", 1))], [lines])
    assert watched.reported == ["+x@1", "-x@1"]
    assert server.watch_params[1]["resourceVersion"] == "3"


async def test_a_deleted_object_without_a_name_leads_to_a_new_list() -> None:
    nobody = event("DELETED", b'{"metadata": {"name": 5}}')
    watched, _ = await play([page(pod("x", 1)), page()], [[nobody]])
    assert watched.reported == ["+x@1", "-x@1"]


ODD_STRINGS = {"half a surrogate pair": rb'"\ud800"', "bytes that are no text": b'"\xff"'}


@pytest.mark.parametrize("value", ODD_STRINGS.values(), ids=ODD_STRINGS)
async def test_strings_that_are_no_text_are_read_as_go_reads_them(value: bytes) -> None:
    listed = page("HERE", version=5).replace(b'"HERE"', odd("x", 1, value))
    watched, _ = await play([listed], [[event("ADDED", odd("y", 6, value))]])
    assert watched.reported == ["+x@1", "+y@6"]


async def test_an_object_without_metadata_is_skipped() -> None:
    watched, _ = await play(
        [page()], [[event("ADDED", b'{"spec": {}}'), line("ADDED", pod("y", 1))]]
    )
    assert watched.reported == ["+y@1"]
    assert sample(watched.metrics, "equipoise_watch_decode_errors_total", kind="Pod") == 1


async def test_an_earlier_good_version_stays_over_a_new_list() -> None:
    watched, _ = await play([page(pod("x", 1)), page(BROKEN)], [[EXPIRED]])
    assert watched.reported == ["+x@1"]


async def test_a_good_version_of_another_uid_does_not_stay() -> None:
    replaced = {**pod("x", 9, uid="other"), "spec": {"nodeName": 5}}
    watched, _ = await play([page(pod("x", 1)), page(replaced)], [[EXPIRED]])
    assert watched.reported == ["+x@1", "-x@1"]


@pytest.mark.parametrize("error", [NotFound(404), Forbidden(403)])
async def test_an_optional_resource_that_is_absent_counts_as_empty_and_is_looked_for(
    error: ApiError,
) -> None:
    server = ScriptedServer([error, error, page(pod("x", 1))], [])
    watched = Watched(server, OPTIONAL)
    with running(watched):
        await watched.reflector.synced.wait()
        assert watched.known == {}
        await server.idle.wait()
    assert watched.clock.slept == [10.0, 20.0]
    assert watched.reported == ["+x@1"]


async def test_a_missing_right_to_an_optional_resource_is_a_warning_once_until_it_is_granted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    refused = Forbidden(403)
    lists: list[bytes | Exception] = [NotFound(404), refused]
    lists += [refused, page(), refused, NotFound(404), refused, page()]
    await play(lists, [NotFound(404)], OPTIONAL)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["Resource cannot be listed and counts as empty"] * 3


async def test_an_optional_resource_that_vanishes_loses_its_objects() -> None:
    watched, _ = await play([page(pod("x", 1)), NotFound(404), page()], [NotFound(404)], OPTIONAL)
    assert watched.reported == ["+x@1", "-x@1"]


async def test_a_resource_that_is_needed_and_refused_is_never_synced() -> None:
    server = ScriptedServer([Forbidden(403)] * 5 + [page()], [])
    watched = Watched(server)
    synced_early = False
    with running(watched):
        while server.lists:
            synced_early = synced_early or watched.reflector.synced.is_set()
            await asyncio.sleep(0)
        await server.idle.wait()
    assert not synced_early
    assert watched.restarts("refused") == 5


async def test_what_the_consumer_raises_ends_the_watch() -> None:
    def fail(changes: list[Change[Pod]]) -> None:
        raise KeyError("bug")

    watched = Watched(ScriptedServer([page(pod("x", 1))], []))
    watched.reflector._on_changes = fail
    with pytest.raises(KeyError):
        await watched.reflector.run()


async def test_the_length_of_what_is_watched_is_known() -> None:
    x, longer, y = pod("x", 1), pod("x", 3, note="long"), pod("y", 2)
    watched, _ = await play(
        [page(x, y, version=2)], [[line("MODIFIED", longer), line("DELETED", pod("y", 4))]]
    )
    assert watched.reflector.json_bytes == len(json.dumps(longer))


async def refreshed(watched: Watched) -> None:
    async with asyncio.timeout(PATIENCE):
        await watched.reflector.refresh()


async def test_refresh_lists_anew_however_silent_the_watch_is() -> None:
    lists = [page(pod("x", 1), version=1), page(pod("x", 1), pod("y", 7), version=7)]
    server = ScriptedServer(lists, [])
    watched = Watched(server)
    with running(watched) as task:
        await server.idle.wait()
        await refreshed(watched)
        assert watched.reported == ["+x@1", "+y@7"]
        await eventually(lambda: len(server.watch_params) == 2)
        assert server.watch_params[-1]["resourceVersion"] == "7"
        assert not task.cancelling()


async def test_two_may_ask_for_a_list_at_once() -> None:
    server = ScriptedServer([page(version=1), page(pod("x", 2), version=2)], [])
    watched = Watched(server)
    with running(watched) as task:
        await server.idle.wait()
        await asyncio.gather(refreshed(watched), refreshed(watched))
        assert watched.known == {"a/x": "2"}
        assert len(server.list_params) == 2
        await eventually(lambda: len(server.watch_params) == 2)
        assert not task.done()


@pytest.mark.parametrize(
    "body", [b"{}", b'{"kind":"Status","status":"Success"}', b'{"metadata":{}}']
)
async def test_an_answer_without_items_is_no_empty_list(body: bytes) -> None:
    lists = [page(pod("x", 1), version=1), body, page(pod("x", 1), pod("y", 2), version=2)]
    server = ScriptedServer(lists, [])
    watched = Watched(server)
    with running(watched):
        await server.idle.wait()
        await refreshed(watched)
        assert watched.reported == ["+x@1", "+y@2"]


async def test_refresh_outlives_a_list_that_fails_and_a_line_that_is_cut() -> None:
    lists: list[bytes | Exception] = [
        page(version=1),
        ServerError(500, "a fault"),
        page(pod("x", 3), version=3),
    ]
    begun = line("ADDED", pod("x", 2))[:10]
    server = ScriptedServer(lists, [[begun, None]])
    watched = Watched(server)
    with running(watched):
        await eventually(lambda: bool(server.watch_params))
        await refreshed(watched)
        assert watched.known == {"a/x": "3"}


async def test_refresh_does_not_wait_for_the_end_of_a_pause() -> None:
    lists = [page(version=1), page(pod("x", 2), version=2)]
    server = ScriptedServer(lists, [ServerError(500, "a fault")])
    watched = Watched(server)
    pauses: list[float] = []

    async def without_end(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.Event().wait()

    watched.reflector._sleep = without_end
    with running(watched) as task:
        await eventually(lambda: bool(pauses))
        await refreshed(watched)
        assert watched.known == {"a/x": "2"}
        assert not task.cancelling()
    assert len(pauses) == 1


async def test_refresh_does_not_wait_for_a_list_that_has_no_answer() -> None:
    lists = [page(pod("x", 1), version=1, token="more"), None, page(pod("y", 2), version=2)]
    server = ScriptedServer(lists, [])
    watched = Watched(server)
    with running(watched) as task:
        await eventually(lambda: len(server.list_params) == 2)
        await refreshed(watched)
        assert watched.reported == ["+x@1", "+y@2", "-x@1"]
        await eventually(lambda: bool(server.watch_params))
        assert server.watch_params[0]["resourceVersion"] == "2"
        assert not task.cancelling()


async def test_refresh_does_not_wait_for_a_watch_that_does_not_open() -> None:
    server = ScriptedServer([page(version=1), page(pod("x", 2), version=2)], [None])
    watched = Watched(server)
    with running(watched) as task:
        await eventually(lambda: bool(server.watch_params))
        await refreshed(watched)
        assert watched.known == {"a/x": "2"}
        assert not task.cancelling()


async def test_a_reflector_ends_when_it_is_cancelled_beside_a_refresh() -> None:
    server = ScriptedServer([page(version=1), page(version=2)], [])
    watched = Watched(server)
    with running(watched) as task:
        await server.idle.wait()
        await asyncio.sleep(0)
        refresh = asyncio.create_task(watched.reflector.refresh())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,), timeout=PATIENCE)
        refresh.cancel()
        assert task.cancelled()
