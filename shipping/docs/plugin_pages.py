"""The pages of the in-tree plugins: the box at the head of each, and the tables of the index.

The prose is written by hand; ``test_plugin_pages.py`` compares it with the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scheduler.config.plugins import DEFAULT_PLUGINS
from scheduler.equivalence.reads import Declaration
from scheduler.framework.declarations import declared_filter, declared_score
from scheduler.framework.registry import points_of
from scheduler.model.events import Action
from scheduler.plugin_api.extension_points import (
    POINTS,
    EnqueueExtensions,
    Observer,
    Plugin,
)
from scheduler.plugins.table import IN_TREE
from scheduler.state.aspects import Aspect
from shipping.docs.program import all_plugins

FOLDER = Path(__file__).parents[2] / "docs" / "plugins"
INDEX = FOLDER / "README.md"
BEGIN, END = "<!-- from the program: make docs -->", "<!-- the end of that -->"

ACTIONS: Mapping[Action, str] = {
    Action.ADD: "added",
    Action.DELETE: "deleted",
    Action.UPDATE: "changed",
    Action.NODE_ALLOCATABLE: "allocatable changed",
    Action.NODE_LABEL: "labels changed",
    Action.NODE_TAINT: "taints changed",
    Action.NODE_CONDITION: "conditions changed",
    Action.NODE_DECLARED_FEATURE: "declared features changed",
    Action.POD_LABEL: "labels changed",
    Action.POD_SCALE_DOWN: "requests less",
    Action.POD_GATES_ELIMINATED: "gates gone",
    Action.POD_TOLERATION: "tolerations changed",
    Action.POD_GENERATED_CLAIM: "claims generated",
}
WEIGHTS = {plugin.name: plugin.weight for plugin in DEFAULT_PLUGINS}


def plugins() -> dict[str, Plugin]:
    """Every in-tree plugin as it is made by default, in the order of the table."""
    framework = all_plugins()
    return {name: framework.plugins[name] for name in IN_TREE}


def page_of(name: str) -> Path:
    """Where a plugin's page is."""
    return FOLDER / f"{name}.md"


def other_pages() -> list[Path]:
    """The pages of the folder that are not about a plugin."""
    return sorted(p for p in FOLDER.glob("*.md") if p != INDEX and p.stem not in IN_TREE)


# The box of a page


def box(plugin: Plugin) -> str:
    """The properties of a plugin that the program declares, as a table."""
    points = points_in_order(plugin.name)
    lines = {
        "Extension points": ", ".join(points),
        "Default profile": default(plugin.name),
        "Also watches": ", ".join(plugin.observes) if isinstance(plugin, Observer) else "",
        "Filter results depend on": dependence(declared_filter(plugin, judges="filter" in points)),
        "Scores depend on": dependence(declared_score(plugin, 1)),
        "Requeueing events": listening(plugin) if isinstance(plugin, EnqueueExtensions) else "",
    }
    rows = [f"| {head} | {text} |" for head, text in lines.items() if text]
    return "\n".join(["| | |", "|---|---|", *rows])


def points_in_order(name: str) -> list[str]:
    """The extension points of a plugin, in the order in which a pod meets them."""
    implemented = points_of(IN_TREE[name])
    return [key for key in POINTS if key in implemented]


def default(name: str) -> str:
    """Whether a plugin is in the default profile, and what its scores weigh there."""
    if name not in WEIGHTS:
        return "off"
    scores = "score" in points_in_order(name)
    return f"on, weight {WEIGHTS[name] or 1}" if scores else "on"


def dependence(declared: Declaration) -> str:
    """What results depend on, and whether they are cached; "" if the plugin does not declare it."""
    reads = declared.reads
    if reads is None:
        return ""
    parts = {
        "of the node": reads.rows,
        "of the whole cluster": reads.cluster,
        "for the key": reads.keys,
    }
    said = [f"{scope}: {words(aspects)}" for scope, aspects in parts.items() if aspects]
    kept = "cached" if reads.kept else "computed for each pod"
    return "; ".join([*(said or ["only the pod"]), kept])


def words(aspects: Iterable[Aspect]) -> str:
    """Aspects, as the page on equivalence calls them."""
    return ", ".join(aspect.name.lower().replace("_", " ") for aspect in sorted(aspects))


def listening(plugin: EnqueueExtensions) -> str:
    """The events of a plugin's hints, by kind."""
    kinds: dict[str, Action] = {}
    for hint in plugin.hints():
        kinds[hint.kind] = kinds.get(hint.kind, Action(0)) | hint.actions
    return "; ".join(
        f"{kind} {', '.join(text for action, text in ACTIONS.items() if action in actions)}"
        for kind, actions in kinds.items()
    )


# The index


def index() -> str:
    """All plugins with what their pages begin with, then the other pages of the folder."""
    rows = [
        f"| [{name}]({name}.md) | {', '.join(points_in_order(name))} | {weight(name)}"
        f" | {first_sentence(page_of(name).read_text())} |"
        for name in IN_TREE
    ]
    others = [
        f"- [{title(text)}]({path.name}): {first_sentence(text)}"
        for path in other_pages()
        for text in [path.read_text()]
    ]
    table = ["| Plugin | Points | Weight | What it does |", "|---|---|---|---|", *rows]
    return "\n".join([*table, *(["", *others] if others else [])])


def weight(name: str) -> str:
    """The default weight, "off", or nothing if there are no scores to weigh."""
    return default(name).rpartition(" ")[2] if default(name) != "on" else ""


def title(page: str) -> str:
    """The heading of a page."""
    return page.partition("\n")[0].removeprefix("# ")


def first_sentence(page: str) -> str:
    """The first sentence after the heading, on one line."""
    body = page.partition("\n")[2].strip().partition("\n\n")[0]
    return re.split(r"(?<=[.!?])\s", body, maxsplit=1)[0].replace("\n", " ")


# Pages


def with_generated(page: str, generated: str) -> str:
    """The page with what the program says now between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{generated}\n\n{END}{after}"


def section(page: str, heading: str) -> str:
    """What is under a heading of the second level; "" if there is none."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    return found[1].strip() if found else ""


def table_in(text: str) -> list[Sequence[str]]:
    """The rows of the first table in a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def write() -> None:
    """Write what the program says into all pages."""
    for name, plugin in plugins().items():
        page = page_of(name)
        page.write_text(with_generated(page.read_text(), box(plugin)))
    INDEX.write_text(with_generated(INDEX.read_text(), index()))
