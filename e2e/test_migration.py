"""The page on moving from kube-scheduler has every flag that kube-scheduler has."""

import re
import subprocess

from e2e.controlplane.binaries import locate
from e2e.harness.patience import PATIENCE
from shipping.helm import PROJECT

PAGE = PROJECT / "docs" / "migration" / "kube-scheduler.md"


def test_every_flag_of_kube_scheduler_is_listed() -> None:
    done = subprocess.run(
        [locate("kube-scheduler"), "--help"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    flags = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", done.stdout, re.M))
    assert len(flags) > 50
    assert set(re.findall(r"^\| `(--[\w-]+)`", PAGE.read_text(), re.M)) == flags
