"""What a partition held back is not delivered once its sender has gone.

The network is real: a namespace of its own, whose loopback interface goes down and comes back.
"""

import shutil
import subprocess
import sys

import pytest

from tests.patience import PATIENCE

NEW_NETWORK = ("unshare", "--net")
PROGRAM = """
import asyncio, subprocess, sys, time
from pathlib import Path
import uvloop
from scheduler.kube import connections
from scheduler.kube.connections import ApiEndpoint, ConnectionPool
from scheduler.kube.credentials import ApiAccess

connections.UNACKNOWLEDGED_SECONDS = 4.0  # long enough to be seen waiting on a busy machine
received = bytearray()

def network(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)

async def handle(reader, writer):
    while data := await reader.read(1000):
        received.extend(data)
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")

def waiting():
    # Sockets that were closed with bytes to deliver (FIN_WAIT1).
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[3] == "04" for line in lines)

async def until(holds):
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.05)

async def main():
    network("up")
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    endpoint = ApiEndpoint.of(ApiAccess(url), {})
    pool = ConnectionPool()
    message = endpoint.message("POST", "/first", "text/plain", b"")
    await pool.exchange(endpoint, message, harmless=False)
    network("down")
    message = endpoint.message("POST", "/second", "text/plain", b"")
    binding = asyncio.create_task(pool.exchange(endpoint, message, harmless=False))
    await asyncio.sleep(0)  # it is written
    binding.cancel()
    await asyncio.wait([binding])
    pool.close()
    await until(lambda: waiting() == 1)
    await until(lambda: waiting() == 0)
    network("up")
    fresh = ConnectionPool()
    await fresh.exchange(endpoint, endpoint.message("POST", "/third", "", b""), harmless=False)
    print([word for word in received.decode().split() if word.startswith("/")])
    fresh.close()

uvloop.run(main()) if sys.argv[1] == "uvloop" else asyncio.run(main())
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_bytes_that_nobody_acknowledged_are_given_up(loop: str) -> None:
    able = sys.platform == "linux" and shutil.which("unshare") and shutil.which("ip")
    if not able or subprocess.run([*NEW_NETWORK, "true"], check=False).returncode:
        pytest.skip("no right to make a network")
    command = [*NEW_NETWORK, sys.executable, "-c", PROGRAM, loop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout == "['/first', '/third']\n", done.stderr
