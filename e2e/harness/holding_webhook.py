"""A webhook that holds its answers back, as a program: ``holding_webhook PORT RECEIVED [HOLD]``.

Each request appends its path to the file RECEIVED, so that a test can kill the program while it
owes an answer. It has no objection to anything.
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT, RECEIVED = int(sys.argv[1]), Path(sys.argv[2])
HOLD_SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0


class Webhook(BaseHTTPRequestHandler):
    """Answers every POST, sooner or later; and a GET, to show that it is there."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """One request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        with RECEIVED.open("a") as received:
            received.write(f"{self.path}\n")
        time.sleep(HOLD_SECONDS)
        self.do_GET()

    def do_GET(self) -> None:
        """Nothing to say."""
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


if __name__ == "__main__":
    RECEIVED.touch()
    ThreadingHTTPServer(("127.0.0.1", PORT), Webhook).serve_forever()
