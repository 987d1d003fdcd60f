"""Plugins from files and entry points: what is found, and what is said of what cannot be used."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.framework.discovery import DiscoveryError, Found, discover
from scheduler.plugins.table import IN_TREE

MAINTENANCE = """
from scheduler.model.status import SUCCESS, unresolvable

class Maintenance:
    name = "Maintenance"
    def __init__(self, args, handle): ...
    def filter_node(self, cycle, node):
        return unresolvable("closed") if "maintenance" in node.labels else SUCCESS
"""
FUNCTIONS = """
from scheduler.plugin_api.extension_points import PreFilterResult
from scheduler.plugin_api.registration import register

def second(cycle): return PreFilterResult()
def first(cycle): return PreFilterResult()
register("pre-filter", first)
register("pre-filter", second)
"""


def found(directory: Path) -> list[Found]:
    return discover(str(directory), IN_TREE)


def problems(directory: Path | str) -> list[str]:
    with pytest.raises(DiscoveryError) as caught:
        discover(str(directory), IN_TREE)
    return [problem.replace(f"{directory}/", "") for problem in caught.value.problems]


def test_classes_and_functions_of_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text(FUNCTIONS)
    (tmp_path / "a.py").write_text(MAINTENANCE)
    (tmp_path / "notes.txt").write_text("not Python")
    plugins = found(tmp_path)
    assert [(each.name, each.points) for each in plugins] == [
        ("Maintenance", ["filter"]),
        ("first", ["preFilter"]),
        ("second", ["preFilter"]),
    ]
    assert plugins[0].origin == f"file {tmp_path}/a.py"


def test_no_directory_is_no_plugin() -> None:
    assert discover("", IN_TREE) == []


def test_a_mounted_config_map(tmp_path: Path) -> None:
    """Files are links into a directory that is replaced as a whole; it must not be read twice."""
    versions = tmp_path / "..2026_11_16_08_00_00.1"
    versions.mkdir()
    (versions / "a.py").write_text(MAINTENANCE)
    os.symlink(versions.name, tmp_path / "..data")
    os.symlink("..data/a.py", tmp_path / "a.py")
    assert [each.name for each in found(tmp_path)] == ["Maintenance"]


def test_files_may_share_code(tmp_path: Path) -> None:
    (tmp_path / "_shared.py").write_text("NAME = 'Shared'\n")
    text = MAINTENANCE.replace('"Maintenance"', "NAME")
    (tmp_path / "a-plugin.py").write_text(f"from ._shared import NAME\n{text}")
    assert [each.name for each in found(tmp_path)] == ["Shared"]


def test_what_is_imported_is_not_defined_here(tmp_path: Path) -> None:
    text = "from scheduler.plugins.node_ports import NodePorts\n"
    (tmp_path / "a.py").write_text(text + MAINTENANCE)
    assert [each.name for each in found(tmp_path)] == ["Maintenance"]


def test_two_directories_do_not_see_each_other(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(MAINTENANCE.replace('"Maintenance"', f'"{name}"'))
    assert [each.name for each in found(tmp_path / "one")] == ["one"]
    assert [each.name for each in found(tmp_path / "two")] == ["two"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("def f(:\n", "line 1: invalid syntax", id="syntax"),
        pytest.param("\nx = 1/0\n", "line 2: ZeroDivisionError: division by zero", id="raises"),
        pytest.param("import sys\nsys.exit(3)\n", "line 2: SystemExit: 3", id="exits"),
        pytest.param(
            "import no_such_module\n",
            "line 1: ModuleNotFoundError: No module named 'no_such_module'",
            id="import",
        ),
        pytest.param(
            "X = 1\n",
            "holds no plugin: no class with a name, and no call of register",
            id="nothing",
        ),
        pytest.param(
            "class A:\n    name = 7\n    def filter(self, cycle, rows): ...\n",
            "class A has no name: add name = 'A'",
            id="no name",
        ),
        pytest.param(
            "class A:\n    name = 'A'\n    def reserve(self, cycle, node): ...\n",
            "plugin 'A' has no method of an extension point (half of one does not count: reserve "
            "needs unreserve, score needs normalize)",
            id="half a point",
        ),
        pytest.param(
            MAINTENANCE.replace('"Maintenance"', '"NodePorts"'),
            "the name 'NodePorts' is taken by a plugin of this program",
            id="name of an in-tree plugin",
        ),
        pytest.param(
            MAINTENANCE
            + "from scheduler.plugin_api.registration import register\n"
            + "register('filter', lambda cycle, rows: None, name='Maintenance')\n",
            "both a class and functions are named 'Maintenance'",
            id="name twice in a file",
        ),
        pytest.param(
            "from scheduler.plugin_api.registration import register\nregister('filtre', print)\n",
            "line 2: RegistrationError: there is no extension point 'filtre'",
            id="no such point",
        ),
    ],
)
def test_what_is_wrong_is_said_of_the_file(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "a.py").write_text(text)
    (only,) = problems(tmp_path)
    assert only.startswith(f"file a.py: {problem}")


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(MAINTENANCE)
    (tmp_path / "b.py").write_text(MAINTENANCE)
    (tmp_path / "c.py").write_text("1/0")
    assert problems(tmp_path) == [
        f"file b.py: the name 'Maintenance' is taken by file {tmp_path}/a.py".replace(
            f"{tmp_path}/", ""
        ),
        "file c.py: line 1: ZeroDivisionError: division by zero",
    ]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert problems(tmp_path / "absent") == [
        f"directory {tmp_path}/absent: No such file or directory"
    ]


# Entry points


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a package with entry points, as pip leaves it behind."""

    def install(code: str, *entry_points: str) -> None:
        (tmp_path / "acme_plugins.py").write_text(code)
        metadata = tmp_path / "acme_plugins-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-plugins\n")
        lines = "\n".join(("[equipoise.plugins]", *entry_points))
        (metadata / "entry_points.txt").write_text(lines)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "acme_plugins", raising=False)

    return install


REGISTRATIONS = """
from scheduler.plugin_api.registration import Registrations
functions = Registrations()
functions.register("post-bind", lambda cycle, node: None, name="RemoteAnswers")
"""


def test_classes_and_functions_of_entry_points(package: Any) -> None:
    package(
        MAINTENANCE + REGISTRATIONS,
        "one = acme_plugins:Maintenance",
        "two = acme_plugins:functions",
    )
    plugins = discover("", IN_TREE)
    assert [(each.name, each.points) for each in plugins] == [
        ("Maintenance", ["filter"]),
        ("RemoteAnswers", ["postBind"]),
    ]
    origin = "entry point one = acme_plugins:Maintenance of acme-plugins"
    assert plugins[0].origin == origin


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("a = acme_plugins:absent", "AttributeError: module 'acme_plugins' has no attribute"),
        ("a = no_such_module:x", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("a = acme_plugins:SUCCESS", "is Status, neither a class nor a Registrations"),
    ],
)
def test_an_entry_point_that_will_not_do(package: Any, entry: str, problem: str) -> None:
    package(MAINTENANCE, entry)
    (only,) = problems("")
    assert only.startswith(f"entry point {entry} of acme-plugins: {problem}")


def test_a_file_runs_once_whoever_imports_it_first(tmp_path: Path) -> None:
    """Or two plugins that share a slot would each have one of their own."""
    (tmp_path / "z.py").write_text("SLOT = object()\n" + MAINTENANCE + FUNCTIONS)
    text = MAINTENANCE.replace('"Maintenance"', '"Sharing"')
    (tmp_path / "a.py").write_text(f"from . import z\nfrom .z import SLOT\n{text}")
    plugins = found(tmp_path)
    assert [each.name for each in plugins] == ["Sharing", "Maintenance", "first", "second"]
    assert plugins[1].origin == f"file {tmp_path}/z.py"
    modules = {each.name: sys.modules[each.factory.__module__] for each in plugins[:2]}
    assert modules["Sharing"].SLOT is modules["Maintenance"].SLOT


def test_a_file_that_failed_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("HALF = 1\n1/0\n")
    before = set(sys.modules)
    problems(tmp_path)
    assert not [name for name in set(sys.modules) - before if name.endswith(".a")]


def test_who_imports_a_file_with_a_fault_is_told_of_that_fault(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("HALF = 1\n1/0\n")
    (tmp_path / "b.py").write_text("from .a import WHOLE\n")
    assert problems(tmp_path) == [
        "file a.py: line 2: ZeroDivisionError: division by zero",
        "file b.py: line 2 of a.py: ZeroDivisionError: division by zero",
    ]


def test_two_classes_of_one_name_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"{MAINTENANCE}\nclass Better(Maintenance): ...\n")
    assert problems(tmp_path) == [
        "file a.py: classes Maintenance and Better are both named 'Maintenance'"
    ]


def test_one_class_under_two_names_is_one_plugin(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"{MAINTENANCE}\nAlso = Maintenance\n")
    assert [each.name for each in found(tmp_path)] == ["Maintenance"]


def test_a_class_that_only_has_a_field_of_that_name_is_no_plugin(tmp_path: Path) -> None:
    helpers = """
import enum
from typing import NamedTuple
import msgspec

class Device(msgspec.Struct):
    name: str

class Pool(NamedTuple):
    name: str

class Kind(enum.Enum):
    LARGE = "large"
"""
    (tmp_path / "a.py").write_text(helpers + MAINTENANCE)
    assert [each.name for each in found(tmp_path)] == ["Maintenance"]


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("async def filter_node(self, cycle, node)", "filter_node must not be a coroutine"),
        ("async def post_bind(self, cycle, node)", "post_bind must not be a coroutine"),
        (
            "def reserve(self, cycle, node): ...\n    async def unreserve(self, cycle, node)",
            "unreserve must not be a coroutine",
        ),
    ],
)
def test_no_method_waits_that_nobody_would_wait_for(
    tmp_path: Path, method: str, problem: str
) -> None:
    (tmp_path / "a.py").write_text(f"class A:\n    name = 'A'\n    {method}: ...\n")
    assert problems(tmp_path) == [f"file a.py: plugin 'A': {problem}"]


def test_nothing_is_written_beside_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "a.py").write_text(f"from . import b\n{MAINTENANCE}")
    (tmp_path / "b.py").write_text(MAINTENANCE.replace('"Maintenance"', '"B"'))
    found(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py", "b.py"]
