/** Every plugin's verdict on every node: sorted, filtered, equal rows together. */

import { useEffect, useMemo, useState } from "preact/hooks";

import { FAILS, FITS, type Matrix, type NodeDetail, REJECTS, RULES_OUT } from "../explain/matrix";
import type { Explained } from "../explain/reader";
import { place, setQuery } from "../router";
import { count, plural } from "../ui/format";
import { Icon } from "../ui/icon";
import { Loading, State } from "../ui/states";
import { type Column, Search, type Sorting, Table } from "../ui/table";
import "../styles/matrix.css";

/** From so many nodes on equal rows are one, until the reader wants otherwise. */
const GROUP_FROM = 25;
/** The width of a plugin's column with the gap beside it, in pixels where text has its usual size. */
const CELL = 46;
/** The colour of the best score: text on it is to be legible. */
const MOST_TINT = 50;
const HEAD_MOST = 270;

const WORDS: Record<number, string> = {
  [FITS]: "accepts",
  [REJECTS]: "rejects; evictions could help",
  [RULES_OUT]: "rules out",
  [FAILS]: "fails",
};

/** One row: a node, or all nodes of a kind. */
interface Row {
  id: string;
  kind: number;
  /** Indexes of nodes; one, unless the row is a group. */
  nodes: number[];
  group: boolean;
  inside: boolean;
}

const WANTED = ["all", "fit", "rejected", "near"] as const;
type Wanted = (typeof WANTED)[number];

const FIRST: Sorting = { column: "nearest", down: false };

/** As the address has it: a column, after a minus if the largest come first. */
function sortingOf(text: string | null): Sorting {
  if (!text) return FIRST;
  return { column: text.replace(/^-/, ""), down: text.startsWith("-") };
}

/** Marks: shapes that differ, so that colours only help. */
const SHAPES: Record<number, string> = {
  [REJECTS]: "M5 12h14",
  [RULES_OUT]: "m7 7 10 10M17 7 7 17",
  [FAILS]: "M12 6v7m0 4v.01",
};

function Mark({ verdict, title }: { verdict: number; title: string }) {
  const shape = SHAPES[verdict];
  if (!shape) return <span class="mark ok" title={title} role="img" aria-label={title} />;
  return (
    <span class={`mark v${verdict}`} title={title} role="img" aria-label={title}>
      <svg viewBox="0 0 24 24" aria-hidden="true">
        <path d={shape} />
      </svg>
    </span>
  );
}

/** Rows of nodes that pass the filter, in order. */
function rowsOf(
  matrix: Matrix,
  {
    wanted,
    plugin,
    text,
    grouped,
    opened,
    sorting,
  }: {
    wanted: Wanted;
    plugin: string;
    text: string;
    grouped: boolean;
    opened: ReadonlySet<number>;
    sorting: Sorting;
  },
): Row[] {
  const column = matrix.plugins.indexOf(plugin);
  const accepted = matrix.kinds.map((kind) => {
    if (wanted === "fit" && kind.rejections) return false;
    if (wanted === "rejected" && !kind.rejections) return false;
    if (wanted === "near" && kind.rejections !== 1) return false;
    return column < 0 || kind.verdicts[column] !== FITS;
  });
  const found: number[] = [];
  matrix.nodes.forEach((name, at) => {
    if (accepted[matrix.kind[at] ?? 0] && (!text || name.toLowerCase().includes(text)))
      found.push(at);
  });
  found.sort(orderOf(matrix, sorting));
  const single = (at: number, inside: boolean): Row => ({
    id: `node ${matrix.nodes[at]}`,
    kind: matrix.kind[at] ?? 0,
    nodes: [at],
    group: false,
    inside,
  });
  if (!grouped) return found.map((at) => single(at, false));
  const groups = new Map<number, number[]>();
  for (const at of found) {
    const kind = matrix.kind[at] ?? 0;
    const members = groups.get(kind);
    if (members) members.push(at);
    else groups.set(kind, [at]);
  }
  return [...groups].flatMap(([kind, nodes]) => {
    const [first] = nodes;
    if (nodes.length === 1 && first !== undefined) return [single(first, false)];
    const id = `nodes like ${matrix.nodes[first ?? 0]}`;
    const head: Row = { id, kind, nodes, group: true, inside: false };
    return opened.has(kind) ? [head, ...nodes.map((at) => single(at, true))] : [head];
  });
}

/** Compares nodes by up to three numbers each, which are looked up once. */
function orderOf(matrix: Matrix, { column, down }: Sorting): (a: number, b: number) => number {
  if (column === "name") return down ? (a, b) => b - a : (a, b) => a - b;
  const sign = down ? -1 : 1;
  const at = matrix.plugins.indexOf(column);
  const scores = matrix.scores[at];
  const first = new Float64Array(matrix.nodes.length);
  const second = new Float64Array(matrix.nodes.length);
  for (let node = 0; node < first.length; node += 1) {
    const kind = matrix.kinds[matrix.kind[node] ?? 0];
    const total = matrix.total[node] || 0;
    const rejections = kind?.rejections ?? 0;
    if (column === "total") first[node] = sign * total;
    else if (at >= 0) {
      first[node] = sign * ((scores?.[node] || 0) - 1e6 * (kind?.verdicts[at] ?? 0));
      second[node] = rejections;
    } else {
      first[node] = sign * rejections;
      second[node] = -total;
    }
  }
  return (a, b) =>
    (first[a] ?? 0) - (first[b] ?? 0) || (second[a] ?? 0) - (second[b] ?? 0) || a - b;
}

export function MatrixCard({ explained, chosen }: { explained: Explained; chosen: string | null }) {
  const { matrix } = explained;
  const { query } = place.value;
  const wanted = WANTED.find((each) => each === query.get("show")) ?? "all";
  const plugin = matrix.plugins.find((each) => each === query.get("plugin")) ?? "";
  const text = query.get("filter") ?? "";
  const order = query.get("sort");
  const sorting = useMemo(() => sortingOf(order), [order]);
  const selected = matrix.nodes.find((each) => each === query.get("node")) ?? null;
  const setWanted = (next: Wanted): void => setQuery({ show: next === "all" ? null : next });
  const [grouped, setGrouped] = useState(matrix.nodes.length >= GROUP_FROM);
  /** A node of each group that is open: kinds have other numbers in the next explanation. */
  const [openedBy, setOpenedBy] = useState<readonly string[]>([]);
  const kindOf = (name: string): number => matrix.kind[matrix.nodes.indexOf(name)] ?? -1;
  const opened = useMemo(() => new Set(openedBy.map(kindOf)), [matrix, openedBy]);

  const rows = useMemo(
    () => rowsOf(matrix, { wanted, plugin, text: text.toLowerCase(), grouped, opened, sorting }),
    [matrix, wanted, plugin, text, grouped, opened, sorting],
  );
  const near = useMemo(() => countNear(matrix), [matrix]);
  const columns = useMemo(() => columnsOf(matrix, chosen, opened), [matrix, chosen, opened]);
  const rejected = matrix.nodes.length - matrix.fits;
  const toggle = ({ kind, nodes: [first] }: Row): void => {
    const others = openedBy.filter((name) => kindOf(name) !== kind);
    const name = matrix.nodes[first ?? -1];
    setOpenedBy(opened.has(kind) || !name ? others : [...others, name]);
  };
  const longest = Math.max(0, ...matrix.plugins.map((name) => name.length));

  return (
    <section class="card" aria-labelledby="matrix-title">
      <div class="card-head">
        <div>
          <h2 id="matrix-title">Every plugin on every node</h2>
          <p>
            {plural(matrix.nodes.length, "node")}, of which {count(matrix.fits)} fit;{" "}
            {plural(matrix.kinds.length, "kind")} of verdict
          </p>
        </div>
        <Search
          value={text}
          label="Filter nodes by name"
          onInput={(next) => setQuery({ filter: next })}
        />
      </div>
      <div class="card-body toolbar">
        <div class="segments" role="group" aria-label="Nodes">
          <Choice
            on={wanted === "all"}
            set={() => setWanted("all")}
            label="All"
            number={matrix.nodes.length}
          />
          <Choice
            on={wanted === "fit"}
            set={() => setWanted("fit")}
            label="Fit"
            number={matrix.fits}
          />
          <Choice
            on={wanted === "rejected"}
            set={() => setWanted("rejected")}
            label="Rejected"
            number={rejected}
          />
          <Choice
            on={wanted === "near"}
            set={() => setWanted("near")}
            label="One plugin away"
            number={near}
          />
        </div>
        <label class="row">
          <span class="quiet small">Rejected by</span>
          <select
            class="field"
            value={plugin}
            onChange={(event) => setQuery({ plugin: event.currentTarget.value })}
          >
            <option value="">any plugin</option>
            {matrix.plugins.map((name, at) =>
              matrix.rejects[at] ? (
                <option key={name} value={name}>
                  {name} ({count(matrix.rejects[at] ?? 0)})
                </option>
              ) : null,
            )}
          </select>
        </label>
        <label class="row">
          <input
            type="checkbox"
            checked={grouped}
            onChange={(event) => setGrouped(event.currentTarget.checked)}
          />
          <span>Equal rows together</span>
        </label>
      </div>
      <div class={selected ? "matrix with-detail" : "matrix"}>
        <Table
          label="Verdicts of plugins on nodes"
          columns={columns}
          rows={rows}
          id={(row) => row.id}
          rowHeight={38}
          headHeight={Math.min(HEAD_MOST, 48 + 7 * longest)}
          height={620}
          minWidth={widthOf(matrix)}
          sorting={sorting}
          onSort={(next) => setQuery({ sort: `${next.down ? "-" : ""}${next.column}` })}
          selected={selected ? `node ${selected}` : undefined}
          onOpen={(row) =>
            row.group ? toggle(row) : setQuery({ node: matrix.nodes[row.nodes[0] ?? 0] ?? null })
          }
          empty={<State icon="search" title="No node is like that" />}
        />
        {selected && (
          <Detail explained={explained} node={selected} close={() => setQuery({ node: null })} />
        )}
      </div>
      <Legend scored={matrix.fits > 0} />
    </section>
  );
}

/** What the columns need, in pixels where text has its usual size. */
function widthOf(matrix: Matrix): number {
  return 240 + CELL * matrix.plugins.length + (matrix.fits ? 72 : 0);
}

function countNear(matrix: Matrix): number {
  let found = 0;
  for (const kind of matrix.kind) if (matrix.kinds[kind]?.rejections === 1) found += 1;
  return found;
}

function Choice(props: { on: boolean; set: () => void; label: string; number: number }) {
  return (
    <button type="button" aria-pressed={props.on} disabled={!props.number} onClick={props.set}>
      {props.label} <span class="number">{count(props.number)}</span>
    </button>
  );
}

function columnsOf(
  matrix: Matrix,
  chosen: string | null,
  opened: ReadonlySet<number>,
): Column<Row>[] {
  const best = matrix.scores.map((values) =>
    values ? values.reduce((most, value) => (value > most ? value : most), 1) : 1,
  );
  const nameOf = (row: Row): string => matrix.nodes[row.nodes[0] ?? 0] ?? "";
  const head: Column<Row> = {
    name: "name",
    title: "Node",
    width: "minmax(12.5rem, 18rem)",
    by: nameOf,
    cell: (row) =>
      row.group ? (
        <span class="matrix-group">
          <span class={opened.has(row.kind) ? "turned" : ""}>
            <Icon name="chevron" small />
          </span>
          <strong class="number">{count(row.nodes.length)}</strong> nodes
          <span class="quieter cut">{nameOf(row)}, …</span>
        </span>
      ) : (
        <span class={row.inside ? "matrix-node inside" : "matrix-node"} title={nameOf(row)}>
          <span class="cut">{nameOf(row)}</span>
          {nameOf(row) === chosen && <span class="badge good">chosen</span>}
        </span>
      ),
  };
  const plugins = matrix.plugins.map((plugin, at): Column<Row> => {
    const scores = matrix.scores[at];
    return {
      name: plugin,
      title: <span class="matrix-plugin">{plugin}</span>,
      width: `${(CELL - 12) / 16}rem`,
      by: () => 0,
      cell: (row) => {
        const kind = matrix.kinds[row.kind];
        const verdict = kind?.verdicts[at] ?? FITS;
        const value = scores?.[row.nodes[0] ?? 0];
        if (verdict === FITS && value !== undefined && Number.isFinite(value))
          return (
            <span
              class="matrix-score number"
              title={`${plugin}: ${value}`}
              style={{ "--share": `${Math.round((MOST_TINT * value) / (best[at] ?? 1))}%` }}
            >
              {count(value)}
            </span>
          );
        const why = kind?.reasons[at];
        return (
          <Mark verdict={verdict} title={`${plugin} ${WORDS[verdict]}${why ? `: ${why}` : ""}`} />
        );
      },
    };
  });
  const why: Column<Row> = {
    name: "why",
    title: "In words",
    width: "minmax(0, 1fr)",
    from: widthOf(matrix) + 160,
    cell: (row) => {
      const said = matrix.kinds[row.kind]?.reasons.filter(Boolean).join(" · ");
      return (
        <span class="quiet small" title={said}>
          {said}
        </span>
      );
    },
  };
  if (!matrix.fits) return [head, ...plugins, why];
  const total: Column<Row> = {
    name: "total",
    title: "Total",
    width: "3.75rem",
    end: true,
    by: () => 0,
    cell: (row) => {
      const value = matrix.total[row.nodes[0] ?? 0] ?? NaN;
      return <strong class="number">{Number.isFinite(value) ? count(value) : ""}</strong>;
    },
  };
  return [head, ...plugins, total, why];
}

function Legend({ scored }: { scored: boolean }) {
  return (
    <ul class="legend card-body" aria-label="Legend">
      <li>
        <Mark verdict={FITS} title="accepts" /> accepts
      </li>
      <li>
        <Mark verdict={REJECTS} title="rejects" /> rejects; evictions could help
      </li>
      <li>
        <Mark verdict={RULES_OUT} title="rules out" /> rules out; no eviction helps
      </li>
      {scored && (
        <li>
          <span class="matrix-score number" style={{ "--share": `${MOST_TINT}%` }}>
            42
          </span>{" "}
          weighted score
        </li>
      )}
    </ul>
  );
}

function Detail({
  explained,
  node,
  close,
}: {
  explained: Explained;
  node: string;
  close: () => void;
}) {
  const [found, setFound] = useState<NodeDetail | null>(null);
  useEffect(() => {
    let here = true;
    setFound(null);
    explained.node(node).then(
      (detail) => here && setFound(detail),
      () => {}, // the worker is gone: the next explanation brings the node as well
    );
    return () => {
      here = false;
    };
  }, [explained, node]);
  return (
    <aside class="matrix-detail" aria-label={`Node ${node}`}>
      <div class="row spread">
        <h3 class="mono">{node}</h3>
        <button type="button" class="button plain icon" aria-label="Close" onClick={close}>
          <Icon name="close" small />
        </button>
      </div>
      {found ? <NodeFacts detail={found} /> : <Loading lines={4} />}
    </aside>
  );
}

function NodeFacts({ detail }: { detail: NodeDetail }) {
  if (!detail.rejections.length)
    return (
      <div class="stack tight">
        <p class="row">
          <span class="badge good">Fits</span>
          {detail.score && <span class="quiet">total {count(detail.score.total)}</span>}
        </p>
        {detail.score && (
          <dl class="pairs">
            {Object.entries(detail.score.plugins)
              .sort((a, b) => b[1] - a[1])
              .map(([plugin, value]) => (
                <div key={plugin}>
                  <dt>{plugin}</dt>
                  <dd class="number">{count(value)}</dd>
                </div>
              ))}
          </dl>
        )}
      </div>
    );
  return (
    <ul class="stack">
      {detail.rejections.map((rejection) => (
        <li key={rejection.plugin} class="stack tight">
          <span class="row wrap">
            <strong>{rejection.plugin}</strong>
            <span class={rejection.code === "Unschedulable" ? "badge warn" : "badge bad"}>
              {rejection.code === "Unschedulable" ? "evictions could help" : "rules it out"}
            </span>
          </span>
          <ul class="fact-list">
            {(rejection.facts.length
              ? rejection.facts.map((fact) => fact.message)
              : rejection.reasons
            ).map((said) => (
              <li key={said}>{said}</li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}
