"""A webhook for Equipoise: pods of a team go to nodes of that team, rather to those with an SSD."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


def labels(thing: Json) -> dict[str, str]:
    """The labels of a pod or a node."""
    found: dict[str, str] = thing["metadata"].get("labels", {})
    return found


def judge(request: Json) -> Json:
    """Reject the nodes of other teams; nodes that are not named fit."""
    team, reason = labels(request["pod"]).get("team"), "node(s) belonged to another team"
    others = [node for node in request["nodes"] if labels(node).get("team") != team]
    return {"rejected": {node["metadata"]["name"]: {"reasons": [reason]} for node in others}}


def rate(request: Json) -> Json:
    """100 for a node with an SSD; nodes that are not named get 0."""
    fast = [node for node in request["nodes"] if labels(node).get("disk") == "ssd"]
    return {"scores": {node["metadata"]["name"]: 100 for node in fast}}


class Webhook(BaseHTTPRequestHandler):
    """Answers POST /filter and POST /score."""

    protocol_version = "HTTP/1.1"
    points = {"/filter": judge, "/score": rate}  # noqa: RUF012  never changed

    def do_POST(self) -> None:
        """One question, one answer."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        point = self.points.get(self.path)
        body = json.dumps(point(request) if point else {}).encode()
        self.send_response(200 if point else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(sys.argv[1])), Webhook).serve_forever()
