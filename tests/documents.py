"""The commands that our pages tell people to type, and the files that they show for them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shipping.helm import PROJECT

PROGRAMS = ("docker", "equipoise", "export", "helm", "kubectl", "make", "promtool", "python")
SHELLS = ("bash", "console", "sh", "shell")

_FENCE = re.compile(r"^```(\w*)\s*$")
_SPAN = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [^`]+)`")
_COMMENT = re.compile(r"\s{2,}#.*$")
_FENCED = re.compile(r"^```.*?^```", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block of code: its language, empty if it has none, and its lines."""

    language: str
    lines: tuple[str, ...]

    def commands(self) -> Iterator[str]:
        """What is to be typed: in a console after ``$``, elsewhere what begins with a program."""
        lines = iter(self.lines)
        for line in lines:
            command = line.removeprefix("$ ")
            if self.language == "console":
                wanted = line.startswith("$ ")
            else:
                wanted = self.language in ("", *SHELLS) and command.split(" ")[0] in PROGRAMS
            if not wanted:
                continue
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
            yield _COMMENT.sub("", command).strip()


class Page:
    """One Markdown file."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.name = str(path.relative_to(PROJECT))
        self._text = text

    def blocks(self) -> Iterator[Block]:
        """Fenced and indented blocks of code, in order."""
        fence: str | None = None
        lines: list[str] = []
        for line in [*self._text.splitlines(), ""]:
            mark = _FENCE.match(line)
            if fence is not None:
                if mark:
                    yield Block(fence, tuple(lines))
                    fence, lines = None, []
                else:
                    lines.append(line)
            elif line.startswith("    "):
                lines.append(line[4:])
            else:
                if lines:
                    yield Block("", tuple(lines))
                    lines = []
                if mark:
                    fence = mark[1]

    def commands(self) -> list[str]:
        """Everything that its blocks tell people to type."""
        return [command for block in self.blocks() for command in block.commands()]

    def mentions(self) -> list[str]:
        """Commands within sentences."""
        return [" ".join(found.split()) for found in _SPAN.findall(self._text)]

    def files(self) -> dict[str, str]:
        """Files it shows: blocks whose first line is a comment with nothing but a name.

        Of Python, only those that a command names: others show how one file may change.
        """
        typed = " ".join(self.commands())
        shown = {}
        for block in self.blocks():
            ending = {"yaml": "yaml", "python": "py"}.get(block.language)
            name = re.match(rf"# (\S+\.{ending})$", block.lines[0]) if ending else None
            if name and (ending == "yaml" or name[1] in typed):
                shown[name[1]] = "\n".join([*block.lines, ""])
        return shown

    def links(self) -> list[str]:
        """Where its links to other files of ours lead."""
        found = re.findall(r"\]\(([^)\s]+)\)", self._text)
        return [each.partition("#")[0] for each in found if "://" not in each and each[0] != "#"]

    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub makes them."""
        headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", self._text), re.M)
        plain = (re.sub(r"[^\w -]", "", heading.strip().lower()) for heading in headings)
        return {text.replace(" ", "-") for text in plain}

    def anchored_links(self) -> list[tuple[Path, str]]:
        """Links to headings of Markdown files: the file, and the anchor."""
        found = re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", self._text)
        ours = [(file, anchor) for file, anchor in found if "://" not in file]
        files = [(self.path.parent / file if file else self.path, anchor) for file, anchor in ours]
        return [(path, anchor) for path, anchor in files if path.suffix == ".md"]


def pages() -> list[Page]:
    """Every page for users and contributors."""
    tops = (PROJECT.glob("*.md"), (PROJECT / "docs").rglob("*.md"))
    chart = "charts/equipoise"
    others = (
        f"{chart}/README.md",
        f"{chart}/examples/README.md",
        "deploy/README.md",
        "e2e/README.md",
    )
    paths = [*(path for top in tops for path in top), *(PROJECT / other for other in others)]
    return [Page(path, path.read_text()) for path in sorted(paths)]
