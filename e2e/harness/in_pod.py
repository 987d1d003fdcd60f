"""The program as the image runs it, with the pod's mounts below a directory: ``in_pod ROOT ARG…``.

A container has its volumes at absolute paths. Here they are below ``ROOT``: arguments that name
them have been changed by who starts us; the one path that the program knows by itself, that of the
service account, is changed here.
"""

import functools
import sys
from pathlib import Path

from scheduler.__main__ import main
from scheduler.kube.client import KubeClient
from scheduler.kube.credentials import SERVICE_ACCOUNT


def relocate(root: Path) -> None:
    """Have the program look for its service account below ``root``."""
    account = root / SERVICE_ACCOUNT.relative_to("/")
    setattr(KubeClient, "connect", functools.partial(KubeClient.connect, service_account=account))  # noqa: B010  because mypy rightly minds an assignment


if __name__ == "__main__":
    relocate(Path(sys.argv[1]))
    del sys.argv[1]
    main()
