"""The bill of materials: complete, valid, and only licences that the image may carry."""

import re
from pathlib import Path

import pytest

from shipping.sbom import bill_of_materials, licence_of, licences, page_components
from shipping.wheels import LOCKS, MACHINES, image_python, install, requirements

# Permissive ones, and the MPL, which asks for nothing of those who pass files on unchanged.
ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0",
    "MPL-2.0", "PSF-2.0", "Python-2.0", "Zlib",
    "Apache Software License", "BSD License", "3-Clause BSD License",
}  # fmt: skip


def terms(licence: str) -> set[str]:
    """The licences in an expression or a list."""
    for word in (" AND ", " OR ", " WITH "):
        licence = licence.replace(word, " / ")
    return {part.strip(" ()") for part in licence.split(" / ")}


def normalized(name: str) -> str:
    """The name of a package as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.slow
def test_every_package_of_the_image_is_listed_with_a_licence_that_may_be(tmp_path: Path) -> None:
    lock = LOCKS / "full.lock"
    install(lock, MACHINES[0], tmp_path)
    bill = bill_of_materials(tmp_path)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "equipoise"
    page = page_components()
    assert {"preact", "@preact/signals", "uplot", "yaml"} <= {each["name"] for each in page}
    assert "vite" not in {each["name"] for each in page}, "it builds the page, and is not in it"
    listed = {
        f"{normalized(c['name'])}=={c['version']}" for c in bill["components"] if c not in page
    }
    pinned = {line.split()[0] for line in requirements(lock, MACHINES[0], image_python())}
    assert listed == pinned
    unknown = {
        component["name"]: licence
        for component in bill["components"]
        if not terms(licence := licence_of(component)) <= ALLOWED
    }
    assert unknown == {}
    table = licences(bill)
    assert all(f"| {component['name']} |" in table for component in bill["components"])


@pytest.mark.parametrize(
    ("python", "machine", "expected"),
    [
        pytest.param("3.11", "x86_64", ["old==1 --hash=sha256:a", "both==3 --hash=sha256:d"]),
        pytest.param("3.13", "aarch64", ["new==2 --hash=sha256:b", "both==3 --hash=sha256:d"]),
    ],
)
def test_conditions_are_read_for_the_image(
    tmp_path: Path, python: str, machine: str, expected: list[str]
) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(
        "old==1 ; python_full_version < '3.12' \\\n    --hash=sha256:a\n    # via something\n"
        "new==2 ; python_full_version >= '3.12' and platform_machine == 'aarch64' \\\n"
        "    --hash=sha256:b\n"
        "windows==1 ; sys_platform == 'win32' \\\n    --hash=sha256:c\n"
        "both==3 \\\n    --hash=sha256:d\n"
    )
    assert [" ".join(line.split()) for line in requirements(lock, machine, python)] == expected
