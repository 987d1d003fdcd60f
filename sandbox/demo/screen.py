"""The live screen: from a view and the user's choices to exactly so many lines of such a width."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from sandbox.demo.grid import GridCell, GridColumn, layout
from sandbox.demo.interaction import Interaction, Open, OpenNode, Tab, Target
from sandbox.demo.view import Cells, Decided, NodeLine, Pool, View, Waiting
from scheduler.cli.units import span

_BLOCKS = "▁▂▃▄▅▆▇█"
_FULL = 0.9
_BAR = 10
_FRAME = 3
"""Lines around the body: headline, tabs, keys."""
_KEYS = (
    ("↑↓", "move"),
    ("⏎", "explain"),
    ("/", "filter"),
    ("space", "pause"),
    ("1-5", "views"),
    ("c", "churn"),
    ("?", "help"),
    ("q", "quit"),
)
_READER_KEYS = (("↑↓", "scroll"), ("PgDn", "page"), ("g G", "ends"), ("esc", "back"))
_HELP = (
    ("↑ ↓  j k", "move by a line; PgUp, PgDn, Home (g) and End (G) by more"),
    ("Enter", "explain the pod of this line, or list the pods of this node"),
    ("1 … 5, Tab", "overview, nodes, queue, decisions, NUMA cells"),
    ("/", "show only lines with a text; Enter keeps it, Esc shows all again"),
    ("Space", "hold the screen still, or go on; the cluster never stops"),
    ("c", "let the demo's own pods come and go, or leave them alone"),
    ("q, Ctrl-C", "quit: cluster, scheduler and kubeconfig are gone"),
)

Row = tuple[list[GridCell], Target]
"""Cells, and what is behind them."""
Rows = tuple[Sequence[GridColumn], list[Row]]


def render(
    view: View,
    state: Interaction,
    width: int,
    height: int,
    tier_style: Callable[[str], str],
    *,
    keys: bool = True,
) -> list[Text]:
    """The whole screen; tells ``state`` what its rows are. Nothing is wider or longer than asked.

    ``tier_style`` has the colour of each state, as all commands have it.
    """
    room = max(0, height - _FRAME)
    if state.reader is not None:
        body = _reading(state, room)
    elif state.help:
        body = _help()
    else:
        body = _body(view, state, width, room, tier_style)
    body = body[:room] + [Text()] * (room - len(body))
    lines = [_headline(view), _tabs(view, state), *body, _keys(state, keys)]
    return [_fitted(line, width) for line in lines[:height]]


def _fitted(line: Text, width: int) -> Text:
    fitted = line.copy()
    fitted.truncate(width, overflow="ellipsis")
    fitted.no_wrap, fitted.end = True, ""
    return fitted


# The frame.


def _headline(view: View) -> Text:
    pending = view.pods - view.bound
    line = Text().append(" Equipoise", "bold")
    line.append(f"  {view.bound}/{view.pods} pods on {view.nodes} nodes")
    line.append(f"  {pending} pending", "yellow" if pending else "dim")
    line.append(f"  {view.page.removeprefix('http://')}", "cyan")
    line.append(f"  {view.rate:.0f} tried/s", "dim")
    return line


def _tabs(view: View, state: Interaction) -> Text:
    line = Text()
    for tab in Tab:
        chosen = tab is state.tab
        line.append(f" {tab.value} {tab.title} ", "reverse" if chosen else "dim")
    if state.paused:
        line.append("  PAUSED", "bold yellow")
    if not view.churning:
        line.append("  no churn", "dim")
    if state.typing or state.filter:
        line.append(f"  /{state.filter}", "bold cyan")
        line.append("▏" if state.typing else "", "cyan")
    return line


def _keys(state: Interaction, keys: bool) -> Text:
    if not keys:
        return Text(" Ctrl-C stops", style="dim")
    if state.typing:
        shown: Sequence[tuple[str, str]] = (("text", "filter"), ("⏎", "keep"), ("esc", "all"))
    elif state.help:
        shown = (("any key", "back"),)
    else:
        shown = _READER_KEYS if state.reader is not None else _KEYS
    line = Text(" ")
    for key, meaning in shown:
        line.append(key, "bold cyan").append(f" {meaning}  ", "dim")
    return line


def _help() -> list[Text]:
    lines = [Text(), Text(" Keys", style="bold"), Text()]
    for key, meaning in _HELP:
        lines.append(Text().append(f"   {key:<12}", "cyan").append(f" {meaning}"))
    lines += [
        Text(),
        Text(" The address in the first line is that of the web page, for a browser."),
        Text(" Beside this screen, in another terminal: kubectl and equipoise, with the lines"),
        Text(" that were printed at the start, and are printed again at the end."),
    ]
    return lines


def _reading(state: Interaction, room: int) -> list[Text]:
    reader = state.reader
    assert reader is not None, "only called while something is read"
    page = max(1, room - 1)
    state.page = page
    reader.top = max(0, min(reader.top, len(reader.lines) - page))
    end = min(len(reader.lines), reader.top + page)
    title = Text().append(f" {reader.title}", "bold")
    if len(reader.lines) > page:
        title.append(f"  lines {reader.top + 1}-{end} of {len(reader.lines)}", "dim")
    # They were wrapped for the whole width.
    return [title, *reader.lines[reader.top : end]]


# The views.


def _body(
    view: View, state: Interaction, width: int, room: int, tier_style: Callable[[str], str]
) -> list[Text]:
    match state.tab:
        case Tab.NODES:
            return _table(_filtered(_node_rows(view.lines), state), state, width, room)
        case Tab.QUEUE:
            counts = "  ".join(f"{tier} {count}" for tier, count in view.tiers.items() if count)
            head = Text(f" {counts or 'nothing waits'}", style="dim")
            rows = _filtered(_waiting_rows(view.waiting, tier_style), state)
            return [head, *_table(rows, state, width, room - 1)]
        case Tab.DECISIONS:
            rows = _filtered(_decision_rows(view.decisions), state)
            return _table(rows, state, width, room)
        case Tab.CELLS:
            head = Text(f" {view.refused} pods refused by kubelets", style="dim")
            rows = _filtered(_cell_rows(view.cells), state)
            return [head, *_table(rows, state, width, room - 1)]
    return _overview(view, state, width, room, tier_style)


def _overview(
    view: View, state: Interaction, width: int, room: int, tier_style: Callable[[str], str]
) -> list[Text]:
    """Pools above; below them what waits and what was decided, as one list to move in."""
    pools = [_title("Nodes"), *_pools(view.pools, width)]
    left = max(0, room - len(pools))
    columns, waiting = _filtered(_waiting_rows(view.waiting, tier_style), state)
    other, decided = _filtered(_decision_rows(view.decisions), state)
    # What waits gets half, or what decisions leave over; two lines of each part are headings.
    space = max(0, left - 4)
    few = min(len(waiting), max(space // 2, space - len(decided)))
    many = max(0, min(len(decided), space - few))
    waiting, decided = waiting[:few], decided[:many]
    state.targets = [target for _, target in (*waiting, *decided)]
    state.row = max(0, min(state.row, len(state.targets) - 1))
    state.page = max(1, space)
    lines = [
        _title("Waiting"),
        *_marked(columns, waiting, state.row, width),
        _title("Latest decisions"),
        *_marked(other, decided, state.row - len(waiting), width),
    ]
    return pools + lines


def _title(text: str) -> Text:
    return Text(f" {text}", style="bold")


def _marked(columns: Sequence[GridColumn], rows: list[Row], chosen: int, width: int) -> list[Text]:
    """Heading and rows, one of which is the chosen one."""
    head, lines = layout(columns, [cells for cells, _ in rows], max(0, width - 2))
    marked = [Text(" ").append_text(head)]
    for i, line in enumerate(lines):
        mark = Text().append("▸" if i == chosen else " ", "bold cyan")
        marked.append(mark.append_text(line))
        if i == chosen:
            marked[-1].stylize("bold")
    return marked


def _table(rows: Rows, state: Interaction, width: int, space: int) -> list[Text]:
    """The part of a list around the chosen row."""
    columns, listed = rows
    state.page = max(1, space - 1)
    state.targets = [target for _, target in listed]
    state.row = max(0, min(state.row, len(listed) - 1))
    top = max(0, min(state.row - state.page // 2, len(listed) - state.page))
    return _marked(columns, listed[top : top + state.page], state.row - top, width)


def _filtered(rows: Rows, state: Interaction) -> Rows:
    columns, listed = rows
    wanted = state.filter.lower()
    if not wanted:
        return rows
    kept = [row for row in listed if any(wanted in cell.text.lower() for cell in row[0])]
    return columns, kept


def _pools(pools: Sequence[Pool], width: int) -> list[Text]:
    columns = (
        GridColumn("POOL"),
        GridColumn("NODES", right=True),
        GridColumn("PODS", right=True),
        GridColumn("CPU", right=True),
        GridColumn("MEMORY", right=True),
        GridColumn("EACH NODE'S CPU", widest=200),
    )
    rows = [
        [
            GridCell(pool.name),
            GridCell(str(pool.nodes)),
            GridCell(str(pool.pods)),
            GridCell(f"{pool.cpu:.0%}", _pressure(pool.cpu)),
            GridCell(f"{pool.memory:.0%}", _pressure(pool.memory)),
            GridCell("".join(map(_block, pool.shares)), "cyan"),
        ]
        for pool in pools
    ]
    head, lines = layout(columns, rows, max(0, width - 2))
    return [Text(" ").append_text(line) for line in (head, *lines)]


def _node_rows(lines: Sequence[NodeLine]) -> Rows:
    columns = (
        GridColumn("NODE"),
        GridColumn("CPU", widest=_BAR + 5),
        GridColumn("MEMORY", widest=_BAR + 5),
        GridColumn("PODS", right=True),
        GridColumn("TAINTS", widest=200),
    )
    return columns, [
        (
            [
                GridCell(line.name),
                GridCell(f"{_bar(line.cpu)} {line.cpu:4.0%}", _pressure(line.cpu)),
                GridCell(f"{_bar(line.memory)} {line.memory:4.0%}", _pressure(line.memory)),
                GridCell(f"{line.pods}/{line.limit}"),
                GridCell(line.taints, "yellow"),
            ],
            OpenNode(line.name),
        )
        for line in lines
    ]


def _waiting_rows(waiting: Sequence[Waiting], tier_style: Callable[[str], str]) -> Rows:
    columns = (
        GridColumn("PODS", right=True),
        GridColumn("LIKE", widest=28),
        GridColumn("TIER", rank=1),
        GridColumn("SINCE", rank=2, right=True),
        GridColumn("WHY", widest=400),
    )
    return columns, [
        (
            [
                GridCell(str(group.count)),
                GridCell(group.like),
                GridCell(group.tier, tier_style(group.tier)),
                GridCell(span(group.seconds)),
                GridCell(group.message),
            ],
            Open(group.pod),
        )
        for group in waiting
    ]


def _decision_rows(decisions: Sequence[Decided]) -> Rows:
    columns = (
        GridColumn("TIME"),
        GridColumn("POD", widest=34),
        GridColumn("NODE", widest=24),
        GridColumn("FIT", right=True),
        GridColumn("SCORE", rank=1, right=True),
        GridColumn("TOOK", rank=2, right=True),
        GridColumn("WHY NOT", widest=400),
    )
    return columns, [
        (
            [
                GridCell(made.time, "dim"),
                GridCell(made.pod),
                GridCell(made.node, "green") if made.node else GridCell("none", "yellow"),
                GridCell(made.fit),
                GridCell(made.score),
                GridCell(f"{made.milliseconds:.1f} ms", "dim"),
                GridCell(made.message),
            ],
            Open(made.pod),
        )
        for made in decisions
    ]


def _cell_rows(cells: Sequence[Cells]) -> Rows:
    columns = (GridColumn("NODE"), GridColumn("CPUS OF THEIR OWN, CELL BY CELL", widest=400))
    rows: list[Row] = []
    for each in cells:
        bars = "   ".join(
            f"{_bar(taken / max(1, whole))} {taken:2d}/{whole:<2d}" for taken, whole in each.taken
        )
        rows.append(([GridCell(each.node), GridCell(bars, "cyan")], OpenNode(each.node)))
    return columns, rows


def _block(share: float) -> str:
    """A node's share as one character; only an empty node is blank."""
    if share <= 0:
        return "·"
    return _BLOCKS[min(len(_BLOCKS) - 1, int(share * len(_BLOCKS)))]


def _bar(share: float) -> str:
    filled = max(0, min(_BAR, round(_BAR * share)))
    return "█" * filled + "·" * (_BAR - filled)


def _pressure(share: float) -> str:
    return "yellow" if share >= _FULL else ""
