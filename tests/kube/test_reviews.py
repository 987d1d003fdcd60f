"""TokenReview and SubjectAccessReview as the embedded API server answers them."""

from collections.abc import AsyncIterator

import pytest

from sandbox.apiserver import ApiServer
from scheduler.kube.client import KubeClient
from scheduler.kube.errors import Ambiguous, ServerError
from scheduler.kube.reviews import Reviews, User
from scheduler.observe.metrics import Metrics


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def reviews(server: ApiServer) -> AsyncIterator[Reviews]:
    client = await KubeClient.connect(metrics=Metrics(), master=server.url, environ={})
    yield Reviews(client)
    await client.close()


async def test_whose_token_it_is(server: ApiServer, reviews: Reviews) -> None:
    server.reviews.add_user("secret", "alice", "team")
    alice = User("alice", "uid-of-alice", ("team", "system:authenticated"))
    assert await reviews.identify("secret") == alice
    assert await reviews.identify("guess") is None
    server.reviews.remove_user("secret")
    assert await reviews.identify("secret") is None


async def test_who_may_do_what(server: ApiServer, reviews: Reviews) -> None:
    server.reviews.allow("team", "get", "/metrics")
    server.reviews.allow("alice", "get", "/debug/*")
    bob = User("bob", groups=("team",), extra=(("example.com/pod", ("p", "q")),))
    assert await reviews.allows(bob, "get", "/metrics")
    assert not await reviews.allows(bob, "head", "/metrics")
    assert not await reviews.allows(bob, "get", "/debug/equivalence")
    assert await reviews.allows(User("alice"), "get", "/debug/equivalence")
    server.reviews.forbid("team", "get", "/metrics")
    assert not await reviews.allows(bob, "get", "/metrics")


async def test_a_failing_server_is_an_error_not_a_no(server: ApiServer, reviews: Reviews) -> None:
    server.faults.fail("POST", "reviews$")
    with pytest.raises(ServerError):
        await reviews.identify("secret")
    server.faults.clear()
    server.faults.drop("POST", "reviews$")
    with pytest.raises(Ambiguous):
        await reviews.allows(User("alice"), "get", "/metrics")
