"""An API server that holds a lease, pods and workloads, and passes requests on to pods."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import trustme

from tests.patience import PATIENCE

Json = dict[str, Any]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/equipoise-system/leases/equipoise"
PODS = "/api/v1/namespaces/equipoise-system/pods"


class Request(NamedTuple):
    """What the server was asked."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any


class ApiServer:
    """Answers by path; what it does not have is a 404 as Kubernetes says it."""

    def __init__(self, url: str, directory: Path, authority: trustme.CA) -> None:
        self.url = url
        self.directory = directory
        self.answers: dict[str, Any] = {}
        """By method and path; an ``int`` is an error of that status."""
        self.asked: list[Request] = []
        self._authority = directory / "ca.crt"
        authority.cert_pem.write_to_path(self._authority)

    def lead(self, holder: str) -> None:
        """Have the lease name a leader."""
        self.answers[f"GET {LEASE}"] = {"spec": {"holderIdentity": holder}}

    def serve(self, pod: str, path: str, answer: Any, method: str = "GET") -> None:
        """Have a pod answer a request that is passed on."""
        self.answers[f"{method} {PODS}/https:{pod}:/proxy{path}"] = answer

    def kubeconfig(self, user: Json | None = None, **cluster: Any) -> str:
        """The name of a kubeconfig for this server; the context's namespace is ``team``."""
        trusted = {"certificate-authority": str(self._authority)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url, **(cluster or trusted)}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [
                {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
            ],
            "current-context": "x",
        }
        file = self.directory / "kubeconfig"
        file.write_text(json.dumps(document))
        return str(file)

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and body."""
        self.asked.append(request)
        path = urlsplit(request.target).path
        found = self.answers.get(f"{request.method} {path}", 404)
        if isinstance(found, int):
            return found, {"kind": "Status", "message": f"{path}: {found}", "code": found}
        return found if isinstance(found, tuple) else (200, found)


@contextmanager
def api_server(directory: Path) -> Iterator[ApiServer]:
    """A running server with TLS."""
    authority = trustme.CA()
    state: list[ApiServer] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            request = Request(self.command, self.path, dict(self.headers), body)
            status, value = state[0].answer(request)
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *_: object, **__: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://127.0.0.1:{server.server_address[1]}"
    state.append(ApiServer(url, directory, authority))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state[0]
    finally:
        server.shutdown()
        thread.join(timeout=PATIENCE)
        server.server_close()
