"""``make sbom``: what is in the image, as a CycloneDX bill of materials and a list of licences.

The packages are those that the image gets, whatever Python and machine this runs on.
"""

import base64
import json
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

from shipping import wheels
from shipping.helm import PROJECT
from shipping.page import WEB
from shipping.version import version

Json = dict[str, Any]

DIST = PROJECT / "dist"
LOCK = wheels.LOCKS / "full.lock"
SPEC_VERSION = "1.6"


def bill_of_materials(packages: Path) -> Json:
    """All packages below a directory with versions, hashes and licences, the program on top."""
    with tempfile.TemporaryDirectory() as scratch:
        environment, bill = Path(scratch) / "environment", Path(scratch) / "bill.json"
        venv.create(environment, with_pip=False)
        (library,) = environment.glob("lib/python*/site-packages")
        (library / "image.pth").write_text(f"{packages}\n")
        command: list[str | Path] = [
            *(Path(sys.executable).parent / "cyclonedx-py", "environment"),
            *("--pyproject", PROJECT / "pyproject.toml", "--mc-type", "application"),
            *("--spec-version", SPEC_VERSION, "--output-format", "JSON", "--output-reproducible"),
            *("--output-file", bill, "--validate", environment / "bin" / "python"),
        ]
        subprocess.run(command, check=True, stderr=subprocess.PIPE)
        document: Json = json.loads(bill.read_text())
    _add_unread_licences(document, packages)
    document["components"] += page_components()
    return document


def page_components() -> list[Json]:
    """The packages that the web page is made of, as its lock file pins them."""
    locked: dict[str, Json] = json.loads((WEB / "package-lock.json").read_text())["packages"]
    return [
        _page_component(path.rpartition("node_modules/")[2], entry)
        for path, entry in sorted(locked.items())
        if path and not entry.get("dev") and not entry.get("optional")
    ]


def _page_component(name: str, entry: Json) -> Json:
    reference = f"pkg:npm/{name.replace('@', '%40')}@{entry['version']}"
    algorithm, _, digest = entry["integrity"].partition("-")
    assert algorithm == "sha512", f"{name}: {algorithm}"
    return {
        "bom-ref": reference,
        "type": "library",
        "name": name,
        "version": entry["version"],
        "purl": reference,
        "hashes": [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}],
        "licenses": [{"license": {"id": entry["license"]}}],
    }


def _add_unread_licences(bill: Json, packages: Path) -> None:
    """The tool reads expressions and classifiers; older packages say it in a field of their own."""
    said = {
        each.name: each.metadata["License"]
        for each in metadata.distributions(path=[str(packages)])
        if "License" in each.metadata
    }
    for component in bill["components"]:
        if not component.get("licenses") and (words := said.get(component["name"])):
            component["licenses"] = [{"license": {"name": words}}]


def licences(bill: Json) -> str:
    """A table of all packages and what their authors say of their licence."""
    rows = sorted(
        (component["name"], component["version"], licence_of(component))
        for component in bill["components"]
    )
    lines = [f"| {name} | {number} | {licence} |" for name, number, licence in rows]
    heading = f"# Licences of what equipoise {version()} contains"
    return "\n".join([heading, "", "| Package | Version | Licence |", "|---|---|---|", *lines, ""])


def licence_of(component: Json) -> str:
    """The licence as an SPDX expression or, from older packages, in their own words."""
    stated = component.get("licenses", [])
    expressions = [entry["expression"] for entry in stated if "expression" in entry]
    named = [entry["license"] for entry in stated if "license" in entry]
    spdx = [entry["id"] for entry in named if "id" in entry]
    own_words = [entry["name"].rpartition(" :: ")[2] for entry in named if "name" in entry]
    return " / ".join(dict.fromkeys(expressions or spdx or own_words)) or "not stated"


def write(directory: Path) -> list[Path]:
    """Write both files; returns where they are."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        wheels.install(LOCK, wheels.MACHINES[0], root)
        bill = bill_of_materials(root)
    bill_file = directory / f"equipoise-{version()}.cdx.json"
    bill_file.write_text(json.dumps(bill, indent=2) + "\n")
    licence_file = directory / f"equipoise-{version()}-licences.md"
    licence_file.write_text(licences(bill))
    return [bill_file, licence_file]


def main() -> int:
    """Exit 0 with both files written and named."""
    for path in write(DIST):
        print(path.relative_to(PROJECT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
