"""The table in docs/why-pending.md, from what both schedulers said."""

from collections.abc import Mapping, Sequence

from e2e.pending_causes.causes import CAUSES
from e2e.pending_causes.collecting import Told
from shipping.helm import PROJECT

PAGE = PROJECT / "docs" / "why-pending.md"
BEGIN, END = "<!-- causes: python -m e2e.pending_causes -->", "<!-- end of causes -->"


def with_table(page: str, theirs: Mapping[str, Told], ours: Mapping[str, Told]) -> str:
    """The page with a row for every cause between its two marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{table(theirs, ours)}\n\n{END}{after}"


def table(theirs: Mapping[str, Told], ours: Mapping[str, Told]) -> str:
    """One row for every cause."""
    rows = [
        f"| {number} | {cause.title} | {_cell(theirs[cause.name].facts)} "
        f"| {_cell(ours[cause.name].facts)} | {_cell([ours[cause.name].remedy])} |"
        for number, cause in enumerate(CAUSES, start=1)
    ]
    head = "| | Cause | kube-scheduler says | Equipoise says | and suggests first |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def _cell(texts: Sequence[str]) -> str:
    return "<br>".join(text.replace("|", "\\|") for text in texts if text) or "nothing"
