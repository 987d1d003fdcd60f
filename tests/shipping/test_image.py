"""The container image: linted, built without Docker by its own steps, and started as it will be."""

import asyncio
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.harness.ports import free_ports
from e2e.harness.processes import Process, answers_ok, unverified
from sandbox.apiserver import ApiServer
from scheduler.flow.problem import decode, encode
from scheduler.flow.worker import LENGTH_BYTES, SolverAnswer, SolverRequest, framed
from shipping.dockerfile import DOCKERFILE, base_of, instructions
from shipping.helm import PROJECT
from shipping.image.__main__ import build_tree, describe
from shipping.image.archive import write
from shipping.image.build import COMMANDS, PACKAGES, PREFIX, USER_ID, VERSION
from shipping.version import version
from shipping.wheels import LOCKS, MACHINES, install
from tests.flow.problems import problem
from tests.patience import PATIENCE
from tests.shipping.archives import unpacked
from tests.shipping.once import made_once

READY_SECONDS = PATIENCE
SIZE_LIMIT = 360 << 20

# Read-only, in a process tree of its own, as nobody in particular: what the chart asks for.
ENTER = """
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
[ -z "$CONFIGURED" ] || mount --bind "$CONFIGURED" "$1/etc/equipoise"
root=$1 user=$2; shift 2
exec chroot --userspec="$user:$user" "$root" "$@"
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root directory")


def stage_instructions(stage: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in instructions():
        if each.stage == stage:
            found.setdefault(each.keyword, []).append(each.text)
    return found


def test_hadolint_finds_nothing() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [linter, "--no-color", DOCKERFILE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_what_the_image_promises() -> None:
    bare = stage_instructions("bare")
    assert base_of("bare") == "scratch"
    assert bare["USER"] == [f"{USER_ID}:{USER_ID}"]
    assert bare["ENTRYPOINT"] == ['["equipoise"]']
    assert bare["CMD"] == ['["run"]']
    assert "RUN" not in bare
    labels = ("title", "description", "licenses", "vendor", "version", "revision", "created")
    assert all(f"org.opencontainers.image.{label}=" in bare["LABEL"][0] for label in labels)
    for stage, built in (("slim", "build-slim"), ("full", "build-full")):
        assert base_of(stage) == "bare"
        assert stage_instructions(stage)["COPY"] == [f"--from={built} /image /"]
    assert [each.stage for each in instructions()][-1] == "full", "the last target is the default"


def test_lock_files_agree() -> None:
    """What is shipped is what was tested: versions and hashes come from one resolution."""

    def pinned(lock: Path) -> dict[str, frozenset[str]]:
        text = re.sub(r"^ *#.*\n", "", lock.read_text(), flags=re.M).replace("\\\n", " ")
        lines = [line.split() for line in text.splitlines() if line.strip()]
        return {words[0]: frozenset(w for w in words if "sha256" in w) for words in lines}

    everything = pinned(PROJECT / "requirements.lock")
    for name in ("run", "build"):
        assert pinned(LOCKS / f"{name}.lock").items() <= everything.items(), name
    assert pinned(LOCKS / "run.lock").items() <= pinned(LOCKS / "full.lock").items()


@pytest.mark.slow
def test_all_packages_have_wheels_for_the_other_machine(tmp_path: Path) -> None:
    """For the machine that this is, building shows it; the full image holds all of the other."""
    (machine,) = set(MACHINES) - {platform.machine()}
    install(LOCKS / "full.lock", machine, tmp_path, "--dry-run")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the image, built by the steps of the Dockerfile in an empty directory."""
    return made_once(tmp_path_factory, "image", partial(build_tree, "full"))


@pytest.mark.slow
def test_the_tree_is_small_and_has_what_it_needs(image: Path) -> None:
    files = [path for path in image.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    packages = sum(p.stat().st_size for p in files if image / PACKAGES in p.parents)
    print(f"image {size >> 20} MiB, of which packages {packages >> 20} MiB")
    assert size < SIZE_LIMIT
    assert (image / PACKAGES / "scheduler" / "serve" / "static" / "index.html").is_file()
    names = {path.name for path in files}
    assert {*COMMANDS, VERSION, "ca-certificates.crt", "passwd"} <= names
    assert not names & {"sh", "bash", "busybox", "pip", "pip3", "apt"}
    modules = [p for p in files if p.suffix == ".py" and image / PREFIX in p.parents]
    compiled = {p.name.split(".")[0] for p in files if p.suffix == ".pyc"}
    assert {p.stem for p in modules} <= compiled


@pytest.mark.slow
def test_nothing_in_the_tree_can_be_written(image: Path) -> None:
    writable = [
        str(path)
        for path in image.rglob("*")
        if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o222
    ]
    assert writable == [str(image / "tmp")]


@pytest.mark.slow
def test_nothing_in_the_tree_tells_where_it_was_built(image: Path) -> None:
    """Else no two builds would have the same digest."""
    packages = image / PACKAGES
    assert not list(packages.glob("*.dist-info/direct_url.json"))
    records = list(packages.glob("*.dist-info/RECORD"))
    assert records
    for record in records:
        listed = [line.split(",")[0].strip('"') for line in record.read_text().splitlines()]
        assert listed
        assert all((packages / name).is_file() for name in listed), record


@pytest.mark.slow
@needs_root
def test_the_archive_unpacks_to_an_image_that_runs(
    image: Path, umoci: Path, tmp_path: Path
) -> None:
    described = describe("full")
    write(image, described, tmp_path / "image.tar")
    root = unpacked(tmp_path / "image.tar", described.tag, umoci, tmp_path)
    done = subprocess.run(
        [*entering(root), "/usr/local/bin/equipoise", "version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"equipoise {version()}\n", done.stderr


@pytest.fixture
def enter(image: Path) -> list[str]:
    """The beginning of a command that runs another inside the image."""
    return entering(image)


def entering(root: Path) -> list[str]:
    """The same for any root directory; skips the test where mounts cannot be made."""
    unshare = shutil.which("unshare")
    allowed = unshare and not subprocess.run([unshare, "--mount", "true"], check=False).returncode
    if not unshare or not allowed:
        pytest.skip("mounts cannot be made here")
    namespaces = [unshare, "--mount", "--pid", "--fork", "--propagation=private"]
    return [*namespaces, "sh", "-ec", ENTER, "enter", str(root), str(USER_ID)]


@pytest.mark.slow
@needs_root
def test_there_is_no_shell(enter: list[str]) -> None:
    for program in ("/bin/sh", "/bin/bash", "/usr/bin/env"):
        done = subprocess.run([*enter, program, "-c", "true"], capture_output=True, check=False)
        assert done.returncode == 127, program


@pytest.mark.slow
@needs_root
def test_it_can_solve_backlogs(enter: list[str]) -> None:
    request = encode(SolverRequest(problem([2], [[10, 20]], [[1, 1]], [[2, 2], [2, 2]]), 60.0))
    worker = [f"/{PREFIX}/bin/{VERSION}", "-m", "scheduler.flow.worker"]
    done = subprocess.run([*enter, *worker], input=framed(request), stdout=-1, check=True)
    hello, said = done.stdout[:LENGTH_BYTES], done.stdout[2 * LENGTH_BYTES :]
    assert hello == bytes(LENGTH_BYTES)
    solution = decode(said, SolverAnswer).solution
    assert solution is not None
    assert (solution.node.tolist(), solution.pods.tolist()) == ([1], [2])


@pytest.mark.slow
@needs_root
async def test_it_runs_read_only_as_another_user(enter: list[str], tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}"
    configured = tmp_path / "configured"
    configured.mkdir(mode=0o755)
    async with ApiServer() as api:
        (configured / "kubeconfig").write_text(yaml.safe_dump(api.kubeconfig()))
        command = [
            *(f"/{PREFIX}/bin/equipoise", "run", "--kubeconfig=/etc/equipoise/kubeconfig"),
            *("--bind-address=0.0.0.0", f"--secure-port={port}", "--leader-elect=false"),
        ]
        clean = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1", "HOME": "/"}
        clean["CONFIGURED"] = str(configured)
        process = Process([*enter, *command], tmp_path / "equipoise.log", clean)
        try:
            await asyncio.to_thread(
                process.wait_ready,
                lambda: answers_ok(f"{url}/readyz", unverified()),
                READY_SECONDS,
            )
            assert await asyncio.to_thread(answers_ok, f"{url}/livez", unverified())
            assert not await asyncio.to_thread(answers_ok, f"{url}/metrics", unverified())
            status = await asyncio.to_thread(_daemon_status, process.pid)
            assert status["Uid"].split() == [str(USER_ID)] * 4
        finally:
            await asyncio.to_thread(process.stop)
        assert process.exit_code == 0, process.tail()


def _daemon_status(parent: int) -> dict[str, str]:
    """/proc/PID/status of the one process that ``unshare`` waits for."""
    (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    lines = Path(f"/proc/{child}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
