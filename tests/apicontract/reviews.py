"""The two reviews: whose token it is, and who may read a path."""

from tests.apicontract.client import Body, Client

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def token_review(token: str) -> Body:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }


def access_review(user: str, *groups: str, verb: str = "get", path: str = "/metrics") -> Body:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": list(groups),
            "nonResourceAttributes": {"path": path, "verb": verb},
        },
    }


class Reviews:
    async def test_a_token_that_nobody_issued_is_nobodys(self, client: Client) -> None:
        review = (await client.create(TOKENS, token_review("made-up"))).ok(201)
        assert review["kind"] == "TokenReview"
        assert not review["status"].get("authenticated", False)
        assert not review["status"]["user"].get("username")

    async def test_a_review_without_a_token_is_a_bad_request(self, client: Client) -> None:
        message = (await client.create(TOKENS, token_review(""))).refused(400, "BadRequest")
        assert message == "token is required for TokenReview in authentication"

    async def test_masters_may_read_everything(self, client: Client) -> None:
        review = (await client.create(ACCESS, access_review("root", "system:masters"))).ok(201)
        assert review["kind"] == "SubjectAccessReview"
        assert review["status"]["allowed"] is True

    async def test_strangers_may_not_read_metrics(self, client: Client) -> None:
        stranger = access_review("system:anonymous", "system:unauthenticated")
        review = (await client.create(ACCESS, stranger)).ok(201)
        assert review["status"]["allowed"] is False

    async def test_a_review_about_nobody_is_invalid(self, client: Client) -> None:
        message = (await client.create(ACCESS, access_review(""))).refused(422, "Invalid")
        assert "spec.user" in message

    async def test_reviews_can_only_be_created(self, client: Client) -> None:
        assert (await client.get(TOKENS)).status == 405
        assert (await client.get(ACCESS)).status == 405
