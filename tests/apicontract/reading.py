"""Lists, pages, selectors and watches."""

import pytest

from tests.apicontract.client import Client, a_binding, a_lease, a_pod, leases_in, names, pods_in


class Reading:
    async def test_pages_show_one_snapshot(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        for name in "abcde":
            (await client.create(path, a_lease(name))).ok(201)
        first = (await client.get(path, limit="2")).ok()
        assert names(first) == ["a", "b"]
        assert first["metadata"]["remainingItemCount"] == 3
        (await client.delete(f"{path}/c")).ok()
        (await client.create(path, a_lease("cc"))).ok(201)
        rest = (
            await client.get(path, limit="9", **{"continue": first["metadata"]["continue"]})
        ).ok()
        assert names(rest) == ["c", "d", "e"]
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        assert "continue" not in rest["metadata"]
        assert names((await client.get(path)).ok()) == ["a", "b", "cc", "d", "e"]

    async def test_a_made_up_continue_token_is_a_bad_request(
        self, client: Client, namespace: str
    ) -> None:
        reply = await client.get(leases_in(namespace), limit="2", **{"continue": "nonsense"})
        reply.refused(400, "BadRequest")

    async def test_an_exact_version_shows_the_past(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        (await client.create(path, a_lease("old"))).ok(201)
        version = await client.version_of(path)
        (await client.create(path, a_lease("young"))).ok(201)
        then = (await client.get(path, resourceVersion=version, resourceVersionMatch="Exact")).ok()
        now = (
            await client.get(path, resourceVersion=version, resourceVersionMatch="NotOlderThan")
        ).ok()
        assert names(then) == ["old"]
        assert then["metadata"]["resourceVersion"] == version
        assert int(now["metadata"]["resourceVersion"]) >= int(version)

    async def test_a_version_from_the_future_times_out(
        self, client: Client, namespace: str
    ) -> None:
        reply = await client.get(leases_in(namespace), resourceVersion="999999999999")
        reply.refused(504, "Timeout")
        assert reply.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    async def test_items_of_a_list_carry_no_kind_but_watched_objects_do(
        self, client: Client, namespace: str
    ) -> None:
        path = leases_in(namespace)
        created = (await client.create(path, a_lease("a"))).ok(201)
        assert (created["kind"], created["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
        listed = (await client.get(path)).ok()
        assert (listed["kind"], listed["apiVersion"]) == ("LeaseList", "coordination.k8s.io/v1")
        assert "kind" not in listed["items"][0]
        assert "apiVersion" not in listed["items"][0]
        async with client.watch(path) as watch:
            _, lease = await watch.next()
        assert (lease["kind"], lease["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")

    async def test_a_watch_tells_the_changes_after_its_version(
        self, client: Client, namespace: str
    ) -> None:
        path = leases_in(namespace)
        (await client.create(path, a_lease("before"))).ok(201)
        version = await client.version_of(path)
        async with client.watch(path, resourceVersion=version) as watch:
            (await client.create(path, a_lease("a"))).ok(201)
            (await client.patch(f"{path}/a", {"spec": {"holderIdentity": "other"}})).ok()
            (await client.delete(f"{path}/a")).ok()
            events = [await watch.next() for _ in range(3)]
        assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
        assert {lease["metadata"]["name"] for _, lease in events} == {"a"}
        versions = [int(lease["metadata"]["resourceVersion"]) for _, lease in events]
        assert int(version) < versions[0] < versions[1] < versions[2]
        assert events[2][1]["spec"]["holderIdentity"] == "other"

    async def test_a_watch_without_a_version_begins_with_the_state(
        self, client: Client, namespace: str
    ) -> None:
        path = leases_in(namespace)
        for name in "ba":
            (await client.create(path, a_lease(name))).ok(201)
        async with client.watch(path) as watch:
            events = [await watch.next() for _ in range(2)]
            (await client.create(path, a_lease("c"))).ok(201)
            events.append(await watch.next())
        assert sorted((kind, each["metadata"]["name"]) for kind, each in events) == [
            ("ADDED", "a"),
            ("ADDED", "b"),
            ("ADDED", "c"),
        ]

    async def test_initial_events_end_with_a_marked_bookmark(
        self, client: Client, namespace: str
    ) -> None:
        path = leases_in(namespace)
        created = (await client.create(path, a_lease("a"))).ok(201)
        query = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
        }
        async with client.watch(path, **query) as watch:
            kind, lease = await watch.next()
            assert (kind, lease["metadata"]["name"]) == ("ADDED", "a")
            kind, bookmark = await watch.next()
        assert kind == "BOOKMARK"
        assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        version = int(bookmark["metadata"]["resourceVersion"])
        assert version >= int(created["metadata"]["resourceVersion"])

    async def test_bookmarks_come_and_their_version_can_be_watched_from(
        self, client: Client, namespace: str
    ) -> None:
        path = leases_in(namespace)
        (await client.create(path, a_lease("a"))).ok(201)
        version = await client.version_of(path)
        query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "4"}
        async with client.watch(path, **query) as watch:
            kind, bookmark = await watch.next()
        assert (kind, bookmark["kind"]) == ("BOOKMARK", "Lease")
        later = bookmark["metadata"]["resourceVersion"]
        assert int(later) >= int(version)
        async with client.watch(path, resourceVersion=later) as watch:
            (await client.delete(f"{path}/a")).ok()
            kind, _ = await watch.next()
        assert kind == "DELETED"

    async def test_a_watch_ends_at_its_timeout(self, client: Client, namespace: str) -> None:
        path = leases_in(namespace)
        version = await client.version_of(path)
        async with client.watch(path, resourceVersion=version, timeoutSeconds="1") as watch:
            assert await watch.ended()

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("app=web", ["a"]),
            ("app==web", ["a"]),
            ("app!=web", ["b", "c"]),
            ("app in (web, db)", ["a", "b"]),
            ("app notin (web)", ["b", "c"]),
            ("app", ["a", "b"]),
            ("!app", ["c"]),
            ("app in (web,db),tier=back", ["b"]),
            ("size>3", ["c"]),
            ("size<3", []),
        ],
    )
    async def test_label_selectors(
        self, client: Client, namespace: str, selector: str, expected: list[str]
    ) -> None:
        path = leases_in(namespace)
        for lease in (
            a_lease("a", app="web"),
            a_lease("b", app="db", tier="back"),
            a_lease("c", size="5"),
        ):
            (await client.create(path, lease)).ok(201)
        assert names((await client.get(path, labelSelector=selector)).ok()) == expected

    async def test_a_label_selector_that_does_not_parse(
        self, client: Client, namespace: str
    ) -> None:
        (await client.get(leases_in(namespace), labelSelector="app in")).refused(400, "BadRequest")

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("spec.nodeName=", ["free"]),
            ("spec.nodeName!=", ["bound"]),
            ("spec.nodeName=contract-node", ["bound"]),
            ("metadata.name=free", ["free"]),
            ("spec.schedulerName=contract-test,status.phase=Pending", ["bound", "free"]),
            ("spec.schedulerName=another", []),
            ("status.phase!=Succeeded,status.phase!=Failed", ["bound", "free"]),
        ],
    )
    async def test_field_selectors_of_pods(
        self, client: Client, namespace: str, selector: str, expected: list[str]
    ) -> None:
        path = pods_in(namespace)
        for name in ("free", "bound"):
            (await client.create(path, a_pod(name))).ok(201)
        (await client.create(f"{path}/bound/binding", a_binding("bound"))).ok(201)
        assert names((await client.get(path, fieldSelector=selector)).ok()) == expected

    async def test_an_unknown_field_selector_is_a_bad_request(
        self, client: Client, namespace: str
    ) -> None:
        reply = await client.get(pods_in(namespace), fieldSelector="spec.colour=red")
        assert "field label not supported: spec.colour" in reply.refused(400, "BadRequest")

    async def test_objects_enter_and_leave_a_selected_watch(
        self, client: Client, namespace: str
    ) -> None:
        path = leases_in(namespace)
        (await client.create(path, a_lease("a"))).ok(201)
        version = await client.version_of(path)
        async with client.watch(path, resourceVersion=version, labelSelector="lit=yes") as watch:
            for value in ("yes", "no", "yes"):
                patched = await client.patch(f"{path}/a", {"metadata": {"labels": {"lit": value}}})
                patched.ok()
            events = [await watch.next() for _ in range(3)]
        assert [kind for kind, _ in events] == ["ADDED", "DELETED", "ADDED"]
        left = events[1][1]["metadata"]
        assert left["labels"]["lit"] == "yes"
        assert int(left["resourceVersion"]) > int(events[0][1]["metadata"]["resourceVersion"])

    async def test_a_bound_pod_leaves_the_watch_on_unbound_pods(
        self, client: Client, namespace: str
    ) -> None:
        path = pods_in(namespace)
        async with client.watch(path, fieldSelector="spec.nodeName=") as watch:
            (await client.create(path, a_pod("p"))).ok(201)
            assert (await watch.next())[0] == "ADDED"
            (await client.create(f"{path}/p/binding", a_binding("p"))).ok(201)
            kind, pod = await watch.next()
        assert kind == "DELETED"
        assert "nodeName" not in pod["spec"]

    async def test_discovery_names_resources_and_subresources(self, client: Client) -> None:
        core = (await client.get("/api/v1")).ok()
        found = {each["name"]: each for each in core["resources"]}
        assert found["pods"]["namespaced"]
        assert not found["nodes"]["namespaced"]
        assert found["pods/binding"]["kind"] == "Binding"
        assert "watch" in found["pods"]["verbs"]
        groups = (await client.get("/apis")).ok()["groups"]
        assert {"apps", "coordination.k8s.io", "storage.k8s.io", "policy"} <= {
            g["name"] for g in groups
        }
        leases = (await client.get("/apis/coordination.k8s.io/v1")).ok()
        assert leases["groupVersion"] == "coordination.k8s.io/v1"
        assert (await client.get("/version")).ok()["major"] == "1"

    @pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
    async def test_health(self, client: Client, path: str) -> None:
        assert (await client.get(path)).ok() == {"": "ok"}

    async def test_unknown_paths_and_methods(self, client: Client, namespace: str) -> None:
        assert (await client.get("/apis/nowhere.example/v1/things")).status == 404
        assert (await client.get(f"/api/v1/namespaces/{namespace}/unicorns")).status == 404
        (await client.get(f"{pods_in(namespace)}/nobody")).refused(404, "NotFound")
        (await client.replace(pods_in(namespace), {})).refused(405, "MethodNotAllowed")
