"""A watch learns that the other side cannot be reached, though nothing is sent on its connection.

The network is real: a namespace of its own, whose loopback interface goes down.
"""

import shutil
import subprocess
import sys

import pytest

from tests.patience import PATIENCE

NEW_NETWORK = ("unshare", "--net")
PROGRAM = """
import asyncio, subprocess, sys
import uvloop
from scheduler.kube import connections
from scheduler.kube.connections import ApiEndpoint, ConnectionPool
from scheduler.kube.credentials import ApiAccess
from scheduler.kube.errors import Ambiguous

connections.UNACKNOWLEDGED_SECONDS = 1.0
connections.PROBE_AFTER_SECONDS = connections.PROBE_EVERY_SECONDS = 1

def network(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)

async def handle(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2\\r\\n{}\\r\\n")
    await reader.read()  # and nothing more, as a watch of what does not change

async def main():
    network("up")
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    endpoint = ApiEndpoint.of(ApiAccess(url), {})
    pool = ConnectionPool()
    stream = await pool.open_stream(endpoint, endpoint.message("GET", "/watch", "", b""))
    print(await stream.read(), flush=True)
    network("down")
    try:
        async with asyncio.timeout(60):
            await stream.read()
    except Ambiguous as error:
        print("dead", flush=True)
    pool.close()

uvloop.run(main()) if sys.argv[1] == "uvloop" else asyncio.run(main())
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_silent_connection_that_leads_nowhere_ends(loop: str) -> None:
    able = sys.platform == "linux" and shutil.which("unshare") and shutil.which("ip")
    if not able or subprocess.run([*NEW_NETWORK, "true"], check=False).returncode:
        pytest.skip("no right to make a network")
    command = [*NEW_NETWORK, sys.executable, "-c", PROGRAM, loop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout == "b'{}'\ndead\n", done.stderr
