"""``python -m e2e.harness.patient``: ``equipoise``, which waits for answers as long as tests do.

A reader is told after some seconds that nobody answers. A daemon that shares two cores with all
other tests may take longer.
"""

from e2e.harness.patience import PATIENCE
from scheduler.__main__ import main
from scheduler.cli import addresses, clusters

if __name__ == "__main__":
    addresses.TIMEOUT_SECONDS = clusters.TIMEOUT_SECONDS = PATIENCE
    main()
