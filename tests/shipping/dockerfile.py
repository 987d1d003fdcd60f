"""Runs the steps of a Dockerfile without Docker: what is copied is copied, what is run is run."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shipping.helm import PROJECT

DOCKERFILE = PROJECT / "Dockerfile"
STEP_SECONDS = 900


class Instruction(NamedTuple):
    """One line of the file, continuation lines joined."""

    stage: str
    keyword: str
    text: str


def instructions() -> Iterator[Instruction]:
    """All instructions in order, each with the stage it belongs to."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    stage = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        keyword, _, rest = line.partition(" ")
        if keyword == "FROM":
            stage = rest.split()[-1]
        yield Instruction(stage, keyword, " ".join(rest.split()))


def base_of(stage: str) -> str:
    """What a stage builds on."""
    (start,) = (i for i in instructions() if i.keyword == "FROM" and i.stage == stage)
    return start.text.split()[0]


def perform(stages: tuple[str, ...], workplace: Path, image: Path, path: Path) -> None:
    """Do what these stages say in an empty directory, with ``/image`` elsewhere.

    `path` comes first on PATH: it has the python and the pip to use.
    """
    environment = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/")}
    for stage, keyword, text in instructions():
        if stage not in stages:
            continue
        if keyword == "COPY":
            *sources, target = text.split()
            for source in sources:
                _copy(PROJECT / source, workplace / target, into=target.endswith("/"))
        elif keyword == "RUN":
            command = text.replace("/image ", f"{image} ").removesuffix("/image")
            command += str(image) if text.endswith(" /image") else ""
            subprocess.run(
                ["/bin/sh", "-ec", command],
                cwd=workplace,
                env=environment,
                check=True,
                timeout=STEP_SECONDS,
            )


def _copy(source: Path, target: Path, *, into: bool) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        return
    where = target / source.name if into else target
    where.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, where)
