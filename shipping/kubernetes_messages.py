"""Writes `sandbox/kubernetes-messages.json.gz`: which field of which protobuf message is what.

`python -m shipping.kubernetes_messages API APIMACHINERY`, with the directories of the Go modules
k8s.io/api and k8s.io/apimachinery (Apache-2.0). The numbers, the names in JSON and what is left out
when it is zero are in the tags of the Go structs, which is why those are read and not the `.proto`
files.
"""

import gzip
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shipping.kubernetes_schemas import KINDS

TARGET = Path(__file__).parent.parent / "sandbox" / "kubernetes-messages.json.gz"

META = "k8s.io/apimachinery/pkg/apis/meta/v1"
_API = "k8s.io/api"
_MACHINERY = "k8s.io/apimachinery"
_OUTSIDE = {"apiextensions.k8s.io"}
"""Groups whose types are elsewhere; nobody sends them as protobuf."""
_WELL_KNOWN = {
    f"{META}.Time": "time",
    f"{META}.MicroTime": "microTime",
    f"{META}.FieldsV1": "raw",
    f"{_MACHINERY}/pkg/api/resource.Quantity": "quantity",
    f"{_MACHINERY}/pkg/util/intstr.IntOrString": "intOrString",
    f"{_MACHINERY}/pkg/runtime.RawExtension": "raw",
}
_SCALARS = {
    "string": "string",
    "bool": "bool",
    "float64": "double",
    "[]byte": "bytes",
} | dict.fromkeys(
    ("int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), "int"
)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_NAMED = re.compile(r"^type (\w+) ([\w\[\]\.]+)$", re.M)
_FIELD = re.compile(r"^\t(?:(\w+)[ \t]+)?([\w\[\]\.\*]+)[ \t]+`([^`]*)`", re.M)
_IMPORT = re.compile(r'^(?:import)?\s+(\w+ )?"(k8s\.io/[\w./-]+)"$', re.M)

Field = list[Any]
"""[name in JSON ("" if inlined), type, "" or "list" or "map", whether a zero is left out]"""


class Package:
    """The types of one Go package."""

    def __init__(self, path: str, directory: Path) -> None:
        self.path = path
        text = (directory / "types.go").read_text()
        self.structs = dict(_STRUCT.findall(text))
        self.named = dict(_NAMED.findall(text))
        self.imports = {
            alias.strip() or imported.rsplit("/", 1)[1]: imported
            for alias, imported in _IMPORT.findall(text)
        }


class Types:
    """Packages, read when they are first asked for."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = roots
        self._packages: dict[str, Package] = {}

    def package(self, path: str) -> Package | None:
        """The package at an import path, if it is in one of the modules and has types."""
        if path not in self._packages:
            root = next((each for each in self._roots if path.startswith(each + "/")), None)
            if root is None:
                return None
            directory = self._roots[root] / path.removeprefix(root + "/")
            if not (directory / "types.go").exists():
                return None
            self._packages[path] = Package(path, directory)
        return self._packages[path]

    def message(self, name: str) -> dict[str, Field]:
        """The fields of a struct by their numbers."""
        path, _, struct = name.rpartition(".")
        package = self.package(path)
        if package is None or struct not in package.structs:
            raise LookupError(f"{name} is not among the types")
        fields = {}
        for _, go_type, tags in _FIELD.findall(package.structs[struct]):
            found = re.search(r'json:"([^"]*)"', tags), re.search(r'protobuf:"\w+,(\d+)', tags)
            if found[0] is None or found[1] is None:
                continue
            json_name, *options = found[0][1].split(",")
            omitted = bool(options) and not go_type.startswith("*")
            fields[found[1][1]] = [json_name, *self._type(package, go_type), omitted]
        return fields

    def _type(self, package: Package, go_type: str) -> tuple[str, str]:
        """The type of a field, and whether it is a list or a map of it."""
        go_type = go_type.removeprefix("*")
        if go_type in _SCALARS:
            return _SCALARS[go_type], ""
        if go_type.startswith("[]"):
            return self._type(package, go_type[2:])[0], "list"
        if go_type.startswith("map["):
            return self._type(package, go_type.partition("]")[2])[0], "map"
        alias, _, name = go_type.rpartition(".")
        path = package.imports[alias] if alias else package.path
        if known := _WELL_KNOWN.get(f"{path}.{name}"):
            return known, ""
        home = self.package(path)
        if home is None:  # named strings of k8s.io/apimachinery/pkg/types and the like
            return "string", ""
        if name in home.structs:
            return f"{path}.{name}", ""
        underlying = home.named[name]
        # A named list is a message of its own, with the items as its only field.
        return ("strings", "") if underlying == "[]string" else self._type(home, underlying)


def collected(api: Path, machinery: Path) -> dict[str, dict[str, Field]]:
    """The messages of our kinds, of options, and of what they consist of."""
    types = Types({_API: api, _MACHINERY: machinery})
    wanted = [f"{META}.DeleteOptions"]
    wanted += [
        f"{_API}/{(group or 'core').split('.')[0]}/{version}.{kind}"
        for group, version, kind in KINDS
        if group not in _OUTSIDE
    ]
    found: dict[str, dict[str, Field]] = {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = types.message(name)
            wanted += [each[1] for each in found[name].values() if "." in each[1]]
    return dict(sorted(found.items()))


def compressed(messages: dict[str, dict[str, Field]]) -> bytes:
    """The file's content; equal messages give equal bytes."""
    text = json.dumps(messages, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


if __name__ == "__main__":
    TARGET.write_bytes(compressed(collected(Path(sys.argv[1]), Path(sys.argv[2]))))
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")
