"""Plugins from outside the tree: Python entry points, and the files of a directory.

An entry point of the group ``equipoise.plugins`` names a class, or a ``Registrations``. A file of
the directory holds classes with a ``name`` and a method of some extension point, and calls of
``register``. Whatever is found only adds to the table of in-tree plugins; profiles enable it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import itertools
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

from scheduler.framework.declarations import DeclarationError, check_declarations
from scheduler.framework.registry import Registry, points_of
from scheduler.plugin_api.handle import PluginFactory
from scheduler.plugin_api.registration import Registrations, collecting

GROUP = "equipoise.plugins"
_PACKAGE = "equipoise_plugins"
_NEVER_AWAITED = ("filter_node", "score_node", "less", "unreserve", "post_bind", "add_pod")
_numbers = itertools.count(1)


class DiscoveryError(ValueError):
    """Plugins that cannot be used; ``problems`` says of each where it is and what is wrong."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Found(NamedTuple):
    """A plugin and where it comes from."""

    name: str
    factory: PluginFactory
    origin: str
    """``file …`` or ``entry point …``, for people."""

    @property
    def points(self) -> list[str]:
        """The extension points it implements, sorted."""
        return sorted(points_of(self.factory))


class _Unusable(ValueError):
    """One problem."""


def discover(directory: str, in_tree: Registry) -> list[Found]:
    """Everything there is: entry points first, then files, each in the order of their names.

    Runs the code of all of it. Raises ``DiscoveryError`` with every problem: what cannot be loaded,
    is no plugin, or takes the name of another.
    """
    problems: list[str] = []
    found: list[Found] = []
    taken: dict[str, str] = dict.fromkeys(in_tree, "a plugin of this program")
    sources = [*_entry_points(), *_files(directory, problems)]
    for origin, load in sources:
        try:
            plugins = load()
        except _Unusable as problem:
            problems.append(f"{origin}: {problem}")
            continue
        except SyntaxError as fault:
            problems.append(f"{origin}: line {fault.lineno}: {fault.msg}")
            continue
        # A plugin's code may raise anything, SystemExit included, and must not end the command.
        except BaseException as fault:
            if isinstance(fault, KeyboardInterrupt):
                raise
            problems.append(f"{origin}: {_where(fault)}{type(fault).__name__}: {fault}")
            continue
        for name, factory in plugins.items():
            if name in taken:
                problems.append(f"{origin}: the name {name!r} is taken by {taken[name]}")
            else:
                taken[name] = origin
                found.append(Found(name, factory, origin))
    if problems:
        raise DiscoveryError(problems)
    return found


def registry_of(found: Iterable[Found], in_tree: Registry) -> Registry:
    """The in-tree plugins and those that were found."""
    return {**in_tree, **{each.name: each.factory for each in found}}


# Entry points


class _EntryPoint(NamedTuple):
    point: importlib.metadata.EntryPoint

    def __call__(self) -> Mapping[str, PluginFactory]:
        value = self.point.load()
        if isinstance(value, Registrations):
            return _checked(value.plugins())
        if isinstance(value, type):
            return _checked({_name_of(value): value})
        raise _Unusable(f"is {type(value).__name__}, neither a class nor a Registrations")


def _entry_points() -> Iterator[tuple[str, Any]]:
    points = importlib.metadata.entry_points(group=GROUP)
    for point in sorted(points, key=lambda each: (each.name, each.value)):
        distribution = f" of {point.dist.name}" if point.dist else ""
        yield f"entry point {point.name} = {point.value}{distribution}", _EntryPoint(point)


# Files


class _PluginFileLoader(SourceFileLoader):
    """Runs a file, and collects what it registers. Writes no bytecode."""

    registrations = Registrations()

    def exec_module(self, module: types.ModuleType) -> None:
        with collecting() as self.registrations:
            super().exec_module(module)

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        pass


class _Folder(NamedTuple):
    """Finds the plugin files of a directory for those among them that import others."""

    files: Mapping[str, Path]

    def find_spec(
        self, module: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self.files.get(module)
        return None if file is None else self._spec(module, file)

    def load(self, module: str) -> types.ModuleType:
        """The module of a file, which runs once: others may have imported it already."""
        if module in sys.modules:
            return sys.modules[module]
        spec = self._spec(module, self.files[module])
        loaded = sys.modules[module] = importlib.util.module_from_spec(spec)
        assert spec.loader is not None, "it was just made"
        sys.meta_path.insert(0, self)
        try:
            spec.loader.exec_module(loaded)
        except BaseException:
            del sys.modules[module]
            raise
        finally:
            sys.meta_path.remove(self)
        return loaded

    @staticmethod
    def _spec(module: str, file: Path) -> ModuleSpec:
        loader = _PluginFileLoader(module, str(file))
        spec = importlib.util.spec_from_file_location(module, file, loader=loader)
        assert spec is not None, "there is a loader for it"
        return spec


class _File(NamedTuple):
    folder: _Folder
    module: str

    def __call__(self) -> Mapping[str, PluginFactory]:
        module = self.folder.load(self.module)
        plugins: dict[str, PluginFactory] = {}
        for each in _classes(module):
            name = _name_of(each)
            if (other := plugins.setdefault(name, each)) is not each:
                both = f"{_title(other)} and {each.__name__}"
                raise _Unusable(f"classes {both} are both named {name!r}")
        loader = module.__loader__
        assert isinstance(loader, _PluginFileLoader), "plugin files have no other loader"
        for name, factory in loader.registrations.plugins().items():
            if name in plugins:
                raise _Unusable(f"both a class and functions are named {name!r}")
            plugins[name] = factory
        if not plugins:
            raise _Unusable("holds no plugin: no class with a name, and no call of register")
        return _checked(plugins)


def _files(directory: str, problems: list[str]) -> Iterator[tuple[str, _File]]:
    """The Python files of a directory, and not of those below it.

    A mounted ConfigMap has its files twice: in a directory whose name begins with two dots, and as
    links into it. Names that begin with a dot or an underscore are left out; the latter may be
    imported by the others (``from . import _shared``).
    """
    if not directory:
        return
    folder = Path(directory)
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".py")
    except OSError as fault:
        problems.append(f"directory {directory}: {fault.strerror}")
        return
    # A package of its own each time: what was loaded from another directory must not be found.
    package = types.ModuleType(f"{_PACKAGE}_{next(_numbers)}")
    package.__path__ = [str(folder)]
    sys.modules[package.__name__] = package
    files = {
        f"{package.__name__}.{path.stem}": path
        for path in paths
        if not path.name.startswith((".", "_")) and path.is_file()
    }
    for module, path in files.items():
        yield f"file {path}", _File(_Folder(files), module)


def _classes(module: types.ModuleType) -> list[type]:
    """The plugins that a module defines, in the order in which it does."""
    return [
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and "name" in dir(value)
        # A field called so, in a class that is no plugin, is none of our business.
        and (isinstance(getattr(value, "name", None), str) or points_of(value))
    ]


# What a plugin must have


def _name_of(plugin: type) -> str:
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise _Unusable(f"class {plugin.__name__} has no name: add name = {plugin.__name__!r}")
    return name


def _checked(plugins: Mapping[str, PluginFactory]) -> Mapping[str, PluginFactory]:
    for name, factory in plugins.items():
        if not points_of(factory):
            raise _Unusable(
                f"plugin {name!r} has no method of an extension point (half of one does not "
                "count: reserve needs unreserve, score needs normalize)"
            )
        try:
            check_declarations(name, factory)
        except DeclarationError as problem:
            raise _Unusable(str(problem)) from problem
        for method in _NEVER_AWAITED:
            if inspect.iscoroutinefunction(getattr(factory, method, None)):
                raise _Unusable(f"plugin {name!r}: {method} must not be a coroutine")
    return plugins


def _title(plugin: PluginFactory) -> str:
    return getattr(plugin, "__name__", repr(plugin))


def _where(fault: BaseException) -> str:
    """The last line of a plugin's file that an exception came through, if there is one."""
    first = line = ""
    trace = fault.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            file = Path(trace.tb_frame.f_code.co_filename).name
            first = first or file
            line = f"line {trace.tb_lineno}" + (f" of {file}: " if file != first else ": ")
        trace = trace.tb_next
    return line
