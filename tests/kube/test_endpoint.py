"""The text of requests: nothing that is put into one can become a second one."""

import pytest

from scheduler.kube.connections import ApiEndpoint
from scheduler.kube.credentials import ApiAccess
from scheduler.kube.errors import Unreachable


def endpoint(server: str, authorization: str | None = None) -> ApiEndpoint:
    return ApiEndpoint.of(ApiAccess(server, authorization), {"User-Agent": "test"})


def test_a_request_has_all_that_http_asks_for() -> None:
    made = endpoint("http://127.0.0.1:80", "Bearer t").message("POST", "/x", "text/plain", b"hi")
    assert made == (
        b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\nUser-Agent: test\r\n"
        b"Authorization: Bearer t\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"
    )


def test_a_request_without_body_says_nothing_of_one() -> None:
    made = endpoint("http://127.0.0.1").message("GET", "/x?a=b", "text/plain", None)
    assert made == b"GET /x?a=b HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: test\r\n\r\n"


@pytest.mark.parametrize(
    ("server", "host", "port", "prefix", "name"),
    [
        ("https://cluster", "cluster", 443, "", "cluster"),
        ("https://cluster:6443/", "cluster", 6443, "", "cluster"),
        ("https://[fd00::1]:6443", "fd00::1", 6443, "", "fd00::1"),
        ("https://proxy/k8s/clusters/c-1", "proxy", 443, "/k8s/clusters/c-1", "proxy"),
        ("http://127.0.0.1:8001", "127.0.0.1", 8001, "", None),
    ],
)
def test_addresses(server: str, host: str, port: int, prefix: str, name: str | None) -> None:
    made = endpoint(server)
    assert (made.host, made.port, made.prefix, made.server_hostname) == (host, port, prefix, name)
    assert (made.tls is not None) == server.startswith("https")
    assert made.message("GET", "/x", "", None).startswith(f"GET {prefix}/x HTTP/1.1\r\n".encode())


@pytest.mark.parametrize(
    "server", ["", "cluster:6443", "ftp://cluster", "https://", "https://x:port", "https://[::1"]
)
def test_what_is_no_address_is_unreachable(server: str) -> None:
    with pytest.raises(Unreachable):
        endpoint(server)


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        ("/api/v1/namespaces/a/pods/x.y-z", "/api/v1/namespaces/a/pods/x.y-z"),
        ("/x?limit=5&continue=a%2Bb", "/x?limit=5&continue=a%2Bb"),
        ("/system:node:a", "/system:node:a"),
        ("/two words", "/two%20words"),
        ("/a\r\nHost: evil", "/a%0D%0AHost:%20evil"),
        ("/ü", "/%C3%BC"),
        ("/a#b", "/a%23b"),
    ],
)
def test_a_target_never_leaves_its_line(target: str, sent: str) -> None:
    line = endpoint("http://h").message("GET", target, "", None).split(b"\r\n")[0]
    assert line == f"GET {sent} HTTP/1.1".encode()


@pytest.mark.parametrize(
    "token", ["Bearer a\r\nX: y", "Bearer a\nb", "Bearer \x00", "Bearer \u2603"]
)
def test_a_token_that_is_no_header_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(Unreachable, match="Authorization") as caught:
        endpoint("http://h", token)
    assert token not in str(caught.value)
