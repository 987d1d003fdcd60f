"""The Dockerfile without Docker: runs its steps, and reads its settings as a configuration."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shipping.helm import PROJECT

DOCKERFILE = PROJECT / "Dockerfile"
STEP_SECONDS = 900
NOT_COPIED = ("__pycache__", "node_modules", "static")
"""What .dockerignore leaves out of directories that are copied."""

Json = dict[str, Any]


class StepFailed(Exception):
    """A RUN of the Dockerfile failed; the text is the command and what it printed."""


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


def lineage(stage: str) -> tuple[str, ...]:
    """The stage and the stages of this file that it builds on, the first one first."""
    known = {each.stage for each in instructions()}
    found = [stage]
    while (base := base_of(found[0])) in known:
        found.insert(0, base)
    return tuple(found)


def perform(stages: tuple[str, ...], workplace: Path, image: Path, path: Path) -> None:
    """Do what these stages say in an empty directory, with ``/image`` elsewhere.

    `path` comes first on PATH: it has the python and the pip to use.
    """
    environment = {
        "PATH": f"{path}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
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
            _run(command, workplace, environment)


def _run(command: str, workplace: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=workplace,
        env=environment,
        check=False,
        timeout=STEP_SECONDS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise StepFailed(f"{command}: ended with {done.returncode}\n{done.stdout.strip()}")


def _copy(source: Path, target: Path, *, into: bool) -> None:
    if source.is_dir():
        left_out = shutil.ignore_patterns(*NOT_COPIED)
        shutil.copytree(source, target, ignore=left_out, dirs_exist_ok=True)
        return
    where = target / source.name if into else target
    where.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, where)


def configuration(stage: str, arguments: Mapping[str, str]) -> Json:
    """The `config` of an image that ends with this stage, as the OCI image specification has it.

    `arguments` replace the defaults of ARG. An instruction that is not known here raises
    ValueError, so that nothing the file says is left out silently.
    """
    known: dict[str, str] = {}
    settings: Json = {}
    for each in instructions():
        if each.stage not in lineage(stage) or each.keyword in {"FROM", "COPY"}:
            continue
        if each.keyword == "ARG":
            name, _, default = each.text.partition("=")
            known[name] = arguments.get(name, default)
        elif each.keyword in _SETTINGS:
            settings |= _SETTINGS[each.keyword](_substituted(each.text, known))
        else:
            raise ValueError(f"{each.keyword} in stage {each.stage} of the Dockerfile")
    if unknown := arguments.keys() - known.keys():
        raise ValueError(f"the Dockerfile has no ARG {', '.join(sorted(unknown))}")
    return settings


def _substituted(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], text)


def _pairs(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(text))


_SETTINGS: dict[str, Callable[[str], Json]] = {
    "CMD": lambda text: {"Cmd": json.loads(text)},
    "ENTRYPOINT": lambda text: {"Entrypoint": json.loads(text)},
    "ENV": lambda text: {"Env": [f"{name}={value}" for name, value in _pairs(text).items()]},
    "EXPOSE": lambda text: {"ExposedPorts": {f"{port}/tcp": {} for port in text.split()}},
    "LABEL": lambda text: {"Labels": _pairs(text)},
    "STOPSIGNAL": lambda text: {"StopSignal": text},
    "USER": lambda text: {"User": text},
    "WORKDIR": lambda text: {"WorkingDir": text},
}
