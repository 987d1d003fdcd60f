"""The table of values in the chart's README."""

import json

from shipping.values import Value, ValuesFile

BEGIN, END = "<!-- values -->", "<!-- end of values -->"


def with_values(readme: str, file: ValuesFile) -> str:
    """The README with the table of the file's keys between its two marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README of the chart lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n{table(file)}\n{END}{after}"


def table(file: ValuesFile) -> str:
    """One row for every documented key."""
    rows = [f"| `{leaf.name}` | {_default(leaf)} | {leaf.description} |" for leaf in file.leaves()]
    return "\n".join(["| Key | Default | Meaning |", "|---|---|---|", *rows])


def _default(leaf: Value) -> str:
    return f"`{json.dumps(leaf.default)}`" if leaf.default != "" else "none"
