/** Nodes as a heat map or a table by one resource, and one node behind each of them. */

import { useMemo, useState } from "preact/hooks";

import { useResource } from "../api/resource";
import type { NodeColumns, NodeMapAnswer } from "../api/view_types";
import { chosen, fitting, type GroupBy, lacks, shareOf, SIZES, type SortBy } from "../nodes/layout";
import { link, place, setQuery } from "../router";
import { dark } from "../theme";
import { amount, isDevices, percent, resourceWords } from "../ui/amounts";
import { count, plural } from "../ui/format";
import { Name } from "../ui/name";
import { heat } from "../ui/scale";
import { Shown, State } from "../ui/states";
import { type Column, Search, Table } from "../ui/table";
import { NodeView } from "./node";
import { lackWords, NodeMap } from "./node_map";
import "../styles/nodes.css";

const EVERY_MS = 5000;
/** Beside the map at least, and of the window's height that it takes at most. */
const BESIDE = 64;
const SIDEBAR = 240;
const OF_HEIGHT = 0.6;
const HIGHEST = 1100;
const WITH_SIDEBAR = 900;
const SORTS: Record<SortBy, string> = {
  name: "Name",
  use: "Most requested",
  free: "Least requested",
  pods: "Most pods",
};

export function Nodes() {
  const [, name] = place.value.path;
  return name ? <NodeView name={name} /> : <AllNodes />;
}

function AllNodes() {
  const { query } = place.value;
  const resource = query.get("resource") ?? "cpu";
  const path = `/api/v1/nodes?view=map&resource=${encodeURIComponent(resource)}`;
  const loaded = useResource<NodeMapAnswer>(path, { every: EVERY_MS, keep: true });
  return (
    <div class="view full">
      {!loaded.data?.count && <Head />}
      <Shown of={loaded} lines={10}>
        {(answer) =>
          answer.count === 0 ? (
            <State icon="nodes" title="There are no nodes yet">
              <p>They appear here as soon as the scheduler sees them.</p>
            </State>
          ) : (
            <Body answer={answer} resource={Object.keys(answer.nodes.capacity)[0] ?? resource} />
          )
        }
      </Shown>
    </div>
  );
}

/** The title where there are no nodes to say more of. */
function Head() {
  return (
    <header class="view-head">
      <div>
        <h1>Nodes</h1>
        <p>Allocatable resources, and what pods request.</p>
      </div>
    </header>
  );
}

/** The size of squares at which so many nodes can be overlooked in this window. */
function firstZoom(nodes: number, groups: number): number {
  const width = innerWidth - BESIDE - (innerWidth >= WITH_SIDEBAR ? SIDEBAR : 0);
  return fitting(nodes, groups, width, Math.min(HIGHEST, OF_HEIGHT * innerHeight));
}

function Body({ answer, resource }: { answer: NodeMapAnswer; resource: string }) {
  const { query } = place.value;
  const { nodes } = answer;
  const filter = query.get("filter") ?? "";
  const sort = (query.get("sort") ?? "name") as SortBy;
  const zones = useMemo(() => new Set(nodes.zone).size, [nodes.zone]);
  const group = (query.get("group") ?? (zones > 1 ? "zone" : "none")) as GroupBy;
  const table = query.get("as") === "table";
  const parts = nodes.devices ?? nodes.cells;
  const hasParts = parts?.some((each) => each !== null) ?? false;
  const divided = hasParts && query.get("cells") === "1";
  const lacking = useMemo(
    () => nodes.name.some((_, at) => lacks(nodes, resource, divided, at)),
    [nodes, resource, divided],
  );
  const [zoom, setZoom] = useState(firstZoom(nodes.name.length, group === "zone" ? zones : 0));
  const size = SIZES[zoom] ?? 12;
  const onZoom = (steps: number): void =>
    setZoom((now) => Math.min(SIZES.length - 1, Math.max(0, now + steps)));

  return (
    <>
      <header class="view-head">
        <div>
          <h1>Nodes</h1>
          <Summary answer={answer} resource={resource} />
        </div>
        <Search
          value={filter}
          label="Filter nodes"
          onInput={(text) => setQuery({ filter: text || null })}
        />
      </header>
      <div class="toolbar">
        <Choice
          label="Resource"
          value={resource}
          choices={Object.fromEntries(answer.resources.map((each) => [each, resourceWords(each)]))}
          onChange={(next) => setQuery({ resource: next === "cpu" ? null : next })}
        />
        {!table && (
          <>
            <Choice
              label="Sort"
              value={sort}
              choices={SORTS}
              onChange={(next) => setQuery({ sort: next === "name" ? null : next })}
            />
            <Choice
              label="Group"
              value={group}
              choices={{ none: "Not at all", zone: "By zone" }}
              onChange={(next) => setQuery({ group: next })}
            />
          </>
        )}
        {hasParts && !table && (
          <label class="toggle">
            <input
              type="checkbox"
              checked={divided}
              onChange={(event) => setQuery({ cells: event.currentTarget.checked ? "1" : null })}
            />
            {isDevices(resource) ? "Each device" : "NUMA cells"}
          </label>
        )}
        <span class="grow" />
        <div class="segments" role="group" aria-label="Shown as">
          <button type="button" aria-pressed={!table} onClick={() => setQuery({ as: null })}>
            Map
          </button>
          <button type="button" aria-pressed={table} onClick={() => setQuery({ as: "table" })}>
            Table
          </button>
        </div>
      </div>
      {table ? (
        <NodeTable nodes={nodes} resource={resource} filter={filter} />
      ) : (
        <section class="card">
          <div class="card-body">
            <NodeMap {...{ nodes, resource, filter, sort, group, size, divided, onZoom }} />
            <div class="map-foot">
              <Legend resource={resource} divided={divided} lacking={lacking} />
              <div class="row">
                <button
                  type="button"
                  class="button small"
                  aria-label="Smaller squares"
                  disabled={zoom === 0}
                  onClick={() => onZoom(-1)}
                >
                  −
                </button>
                <button
                  type="button"
                  class="button small"
                  aria-label="Larger squares"
                  disabled={zoom === SIZES.length - 1}
                  onClick={() => onZoom(1)}
                >
                  +
                </button>
              </div>
            </div>
          </div>
        </section>
      )}
    </>
  );
}

function Summary({ answer, resource }: { answer: NodeMapAnswer; resource: string }) {
  const { nodes } = answer;
  const sum = (values: number[] | undefined): number => (values ?? []).reduce((a, b) => a + b, 0);
  const capacity = sum(nodes.capacity[resource]);
  const requested = sum(nodes.requested[resource]);
  return (
    <p>
      {plural(answer.count, "node")}
      {nodes.name.length < answer.count && `, the first ${count(nodes.name.length)} are shown`}
      {capacity > 0 && (
        <>
          , {percent(requested / capacity)} of {resourceWords(resource)}{" "}
          {isDevices(resource) ? "are reserved" : "is requested"}: {amount(resource, requested)} of{" "}
          {amount(resource, capacity)}
        </>
      )}
    </p>
  );
}

function Choice({
  label,
  value,
  choices,
  onChange,
}: {
  label: string;
  value: string;
  choices: Record<string, string>;
  onChange: (value: string) => void;
}) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select class="field" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {Object.entries(choices).map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

function Legend({
  resource,
  divided,
  lacking,
}: {
  resource: string;
  divided: boolean;
  /** Whether some nodes have none of what is shown. */
  lacking: boolean;
}) {
  const devices = isDevices(resource);
  const steps = Array.from({ length: 11 }, (_, step) => step / 10);
  return (
    <div class="map-legend">
      <span class="map-legend-range">
        0 %
        <span class="map-legend-scale" aria-hidden="true">
          {steps.map((step) => (
            <i key={step} style={{ background: heat(step, dark.value) }} />
          ))}
        </span>
        100 %
      </span>
      <span>
        of {resourceWords(resource)} {devices ? "reserved" : "requested"}
      </span>
      {lacking && (
        <span class="legend-mark">
          <i class="mark-hatch" aria-hidden="true" /> has {lackWords(resource, divided)}
        </span>
      )}
      <span class="legend-mark">
        <i class="mark-cross" aria-hidden="true" /> cordoned
      </span>
      <span class="legend-mark">
        <i class="mark-corner" aria-hidden="true" /> tainted
      </span>
      {divided && (
        <span>
          {devices
            ? "Each device: above whether it is reserved, below whether a claim reports it; struck out if other devices have what it is made of"
            : "Each cell: above what is reserved, below what the node reports"}
        </span>
      )}
    </div>
  );
}

interface NodeLine {
  name: string;
  zone: string;
  share: number;
  requested: number;
  capacity: number;
  pods: number;
  podLimit: number;
  marks: string;
}

function linesOf(nodes: NodeColumns, resource: string, filter: string): NodeLine[] {
  return chosen(nodes, filter).map((at) => ({
    name: nodes.name[at] ?? "",
    zone: nodes.zone[at] ?? "",
    share: shareOf(nodes, resource, at),
    requested: nodes.requested[resource]?.[at] ?? 0,
    capacity: nodes.capacity[resource]?.[at] ?? 0,
    pods: nodes.pods[at] ?? 0,
    podLimit: nodes.podLimit[at] ?? 0,
    marks: nodes.unschedulable[at] ? "cordoned" : nodes.taints[at] ? "tainted" : "",
  }));
}

function columnsOf(resource: string): Column<NodeLine>[] {
  return [
    {
      name: "name",
      title: "Node",
      width: "minmax(0, 2fr)",
      by: (row) => row.name,
      cell: (row) => <Name of={row.name} />,
    },
    {
      name: "zone",
      title: "Zone",
      width: "minmax(0, 1fr)",
      from: 700,
      by: (row) => row.zone,
      cell: (row) => row.zone || "–",
    },
    {
      name: "marks",
      title: "Marks",
      width: "5.5rem",
      from: 500,
      by: (row) => row.marks,
      cell: (row) =>
        row.marks && (
          <span class={`badge ${row.marks === "cordoned" ? "warn" : ""}`}>{row.marks}</span>
        ),
    },
    {
      name: "share",
      title: resourceWords(resource),
      width: "minmax(5.5rem, 1.4fr)",
      by: (row) => (Number.isNaN(row.share) ? -1 : row.share),
      cell: (row) => (
        <span class="meter-cell">
          <span class="bar">
            <i style={{ width: percentWidth(row.share) }} />
          </span>
          <span class="number">{Number.isNaN(row.share) ? "none" : percent(row.share)}</span>
        </span>
      ),
    },
    {
      name: "requested",
      title: isDevices(resource) ? "Reserved" : "Requested",
      width: "6.5rem",
      end: true,
      from: 800,
      by: (row) => row.requested,
      cell: (row) => <span class="number">{amount(resource, row.requested)}</span>,
    },
    {
      name: "capacity",
      title: "Of",
      width: "6.5rem",
      end: true,
      from: 800,
      by: (row) => row.capacity,
      cell: (row) => <span class="number">{amount(resource, row.capacity)}</span>,
    },
    {
      name: "pods",
      title: "Pods",
      width: "4.75rem",
      end: true,
      by: (row) => row.pods,
      cell: (row) => (
        <span class="number">
          {row.pods} / {row.podLimit}
        </span>
      ),
    },
  ];
}

/** A length for a bar; nothing where there is no share. */
export function percentWidth(share: number): string {
  return `${Number.isNaN(share) ? 0 : Math.min(100, 100 * share)}%`;
}

function NodeTable({
  nodes,
  resource,
  filter,
}: {
  nodes: NodeColumns;
  resource: string;
  filter: string;
}) {
  const rows = useMemo(() => linesOf(nodes, resource, filter), [nodes, resource, filter]);
  const columns = useMemo(() => columnsOf(resource), [resource]);
  return (
    <section class="card">
      <Table
        label="Nodes"
        columns={columns}
        rows={rows}
        id={(row) => row.name}
        href={(row) => link("nodes", row.name)}
        empty={<State icon="search" title="No node matches the filter" />}
      />
    </section>
  );
}
