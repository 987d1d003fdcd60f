"""The example in docs/why-pending.md: what ``explain`` prints about the objects that it shows."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from click.testing import CliRunner

from scheduler.cli.exits import UNSCHEDULABLE
from scheduler.cli.main import cli

PAGE = Path(__file__).parents[2] / "docs" / "why-pending.md"
BEGIN, END = "<!-- explain: make docs -->", "<!-- end of explain -->"
_COMMAND = "equipoise explain train -f pending.yaml --patch"
_FILE = re.compile(r"^```yaml\n(# pending\.yaml\n.*?)^```$", re.M | re.S)


def explained(manifests: str) -> str:
    """What the command prints for the pod among these objects, which fits nowhere."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pending.yaml"
        file.write_text(manifests)
        words = [str(file) if word == file.name else word for word in _COMMAND.split()[1:]]
        done = CliRunner().invoke(cli, words, env={"NO_COLOR": "1"})
    if done.exit_code != UNSCHEDULABLE:
        raise ValueError(f"exit code {done.exit_code}: {done.output}")
    return done.stdout


def with_example(page: str) -> str:
    """The page with what the command prints now."""
    shown = _FILE.search(page)
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if shown is None or not begin or not end:
        raise ValueError(f"{PAGE} lacks pending.yaml, {BEGIN} or {END}")
    lines = [line.rstrip() for line in explained(shown[1]).rstrip().splitlines()]
    block = "\n".join(["```text", f"$ {_COMMAND}", *lines, "```"])
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def write() -> None:
    """Write the example into the page."""
    PAGE.write_text(with_example(PAGE.read_text()))
