"""Asks replicas for ``/livez`` all the time, in a process of its own, and says how long it took.

A line of JSON per answer goes to standard output: the URL, the seconds it took, whether it was 200.
"""

import json
import sys
import threading
import time
import urllib.error
import urllib.request

from e2e.harness.patience import PATIENCE

INTERVAL_SECONDS = 0.05


def probe(url: str, lock: threading.Lock) -> None:
    """Ask one replica until the process is ended."""
    while True:
        began = time.perf_counter()
        try:
            with urllib.request.urlopen(f"{url}/livez", timeout=PATIENCE) as answer:
                alive = answer.status == 200
        except (urllib.error.URLError, OSError):
            alive = False
        line = {"url": url, "seconds": time.perf_counter() - began, "alive": alive}
        with lock:
            print(json.dumps(line), flush=True)
        time.sleep(INTERVAL_SECONDS)


def main() -> None:
    """Probe all URLs of the command line."""
    lock = threading.Lock()
    threads = [
        threading.Thread(target=probe, args=(url, lock), daemon=True) for url in sys.argv[1:]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
