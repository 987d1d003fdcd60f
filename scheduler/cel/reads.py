"""What an expression may read of a device, found before it is evaluated.

Devices that agree in all of it give the same outcome, so one evaluation serves them all.
"""

from __future__ import annotations

from scheduler.cel.ast import CallNode, Comprehension, Ident, Literal, Node, Select, children

Reads = frozenset[tuple[str, str, str]]
"""(attribute | capacity, domain, name), and (driver | allowMultipleAllocations, "", "")."""

_PARTS = {"attributes": "attribute", "capacity": "capacity"}
_WHOLE = frozenset({"driver", "allowMultipleAllocations"})
_STEPS = frozenset({"_[_]", "_[?_]", "_?._"})

Path = tuple[str, ...]


def reads_of(root: Node) -> Reads | None:
    """All that may be read; None if that may be anything."""
    finder = _Finder()
    return frozenset(finder.found) if finder.visit(root, {"device": ()}) else None


class _Finder:
    def __init__(self) -> None:
        self.found: set[tuple[str, str, str]] = set()

    def visit(self, node: Node, known: dict[str, Path | None]) -> bool:
        """Note what a node reads; False if it may read anything. `known` are paths of names."""
        path = self.path(node, known)
        if path is not None:
            return self.read(path)
        if isinstance(node, CallNode) and node.function == "@in" and self.membership(node, known):
            return True
        if isinstance(node, Comprehension):
            return self.comprehension(node, known)
        return all(self.visit(child, known) for child in children(node))

    def read(self, path: Path) -> bool:
        if len(path) == 1 and path[0] in _WHOLE:
            self.found.add((path[0], "", ""))
            return True
        if len(path) < 3 or path[0] not in _PARTS:
            return False
        self.found.add((_PARTS[path[0]], path[1], path[2]))
        return True

    def path(self, node: Node, known: dict[str, Path | None]) -> Path | None:
        """The names from the device to what a chain selects, if it is a chain of constants."""
        names: list[str] = []
        while not isinstance(node, Ident):
            if isinstance(node, Select):
                names.append(node.field)
                node = node.operand
                continue
            if not isinstance(node, CallNode) or node.function not in _STEPS:
                return None
            key = node.args[1]
            if not isinstance(key, Literal) or not isinstance(key.value, str):
                return None
            names.append(key.value)
            node = node.args[0]
        base = known.get(node.name)
        return None if base is None else (*base, *reversed(names))

    def membership(self, node: CallNode, known: dict[str, Path | None]) -> bool:
        """`"name" in device.attributes["domain"]` reads whether one name is there."""
        key, holder = node.args
        path = self.path(holder, known)
        if path is None or len(path) != 2 or not isinstance(key, Literal):
            return False
        return isinstance(key.value, str) and self.read((*path, key.value))

    def comprehension(self, node: Comprehension, known: dict[str, Path | None]) -> bool:
        if node.is_bind:
            path = self.path(node.initial, known)
            if path is None or len(path) >= 3:
                if not self.visit(node.initial, known):
                    return False
                path = None
            return self.visit(node.result, {**known, node.accumulator: path})
        inner: dict[str, Path | None] = {**known, node.variable: None, node.accumulator: None}
        if node.variable2 is not None:
            inner[node.variable2] = None
        parts = (node.condition, node.step, node.result)
        return (
            self.visit(node.range, known)
            and self.visit(node.initial, known)
            and all(self.visit(part, inner) for part in parts)
        )
