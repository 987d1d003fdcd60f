/** The nodes as squares on a canvas that scrolls; the pointer and the keyboard name one of them. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { NodeColumns } from "../api/view_types";
import {
  arrange,
  chosen,
  type GroupBy,
  lacks,
  nodeAt,
  shareOf,
  type SortBy,
  type Spot,
  spotOf,
  stepFrom,
} from "../nodes/layout";
import { paint, REPORTED, RESERVED } from "../nodes/painting";
import { go, link } from "../router";
import { dark } from "../theme";
import { amount, isDevices, percent, resourceWords } from "../ui/amounts";
import { count, plural } from "../ui/format";
import { enlargement } from "../ui/size";
import { State } from "../ui/states";

const STEPS = [
  "ArrowRight",
  "ArrowLeft",
  "ArrowDown",
  "ArrowUp",
  "PageDown",
  "PageUp",
  "Home",
  "End",
];
const MARGIN = 4;
/** From a square to what is said of it. */
const FROM_SQUARE = 8;

interface NodeMapProps {
  nodes: NodeColumns;
  resource: string;
  filter: string;
  sort: SortBy;
  group: GroupBy;
  size: number;
  /** Whether squares are divided into NUMA cells or devices. */
  divided: boolean;
  /** Larger (1) or smaller (-1). */
  onZoom: (steps: number) => void;
}

export function NodeMap(props: NodeMapProps) {
  const { nodes, resource, filter, sort, group, size, divided } = props;
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [top, setTop] = useState(0);
  /** The node that the pointer or the keyboard is on: others may come before it. */
  const [activeName, setActiveName] = useState("");
  const active = useMemo(
    () => (activeName ? nodes.name.indexOf(activeName) : -1),
    [nodes, activeName],
  );
  const setActive = (node: number): void => setActiveName(nodes.name[node] ?? "");
  const [told, setTold] = useState("");

  const indexes = useMemo(() => chosen(nodes, filter), [nodes, filter]);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = (): void => setWidth(element.clientWidth - 2 * MARGIN);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [indexes.length === 0]);

  const layout = useMemo(
    () => arrange(nodes, indexes, resource, sort, group, size, Math.max(width, size)),
    [nodes, indexes, resource, sort, group, size, width],
  );

  useEffect(() => {
    const element = canvas.current;
    if (!element || !width) return;
    const drawing = requestAnimationFrame(() => {
      const height = Math.min(frame.current?.clientHeight ?? 0, layout.height + 2 * MARGIN);
      const larger = enlargement();
      const picture = { nodes, resource, layout, size, dark: dark.value, divided, active, larger };
      paint(element, picture, Math.max(0, top - MARGIN), height);
    });
    return () => cancelAnimationFrame(drawing);
  }, [nodes, resource, layout, size, divided, active, top, width, dark.value]);

  const under = (event: MouseEvent): number => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return -1;
    return nodeAt(
      layout,
      event.clientX - box.left,
      event.clientY - box.top + Math.max(0, top - MARGIN),
    );
  };

  const open = (node: number): void => {
    const name = nodes.name[node];
    if (name) go(link("nodes", name));
  };

  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Enter") open(active);
    else if (event.key === "+" || event.key === "=") props.onZoom(1);
    else if (event.key === "-") props.onZoom(-1);
    else if (STEPS.includes(event.key)) {
      event.preventDefault();
      const next = stepFrom(layout, active, event.key);
      setActive(next);
      setTold(next < 0 ? "" : sentence(nodes, resource, next));
      const spot = spotOf(layout, next);
      const element = frame.current;
      if (!spot || !element) return;
      if (spot.y < element.scrollTop) element.scrollTop = spot.y;
      else if (spot.y + layout.step > element.scrollTop + element.clientHeight)
        element.scrollTop = spot.y + layout.step - element.clientHeight + 2 * MARGIN;
    }
  };

  const without = useMemo(
    () => indexes.filter((at) => lacks(nodes, resource, divided, at)).length,
    [indexes, nodes, resource, divided],
  );
  const below = layout.height + 2 * MARGIN - top - (frame.current?.clientHeight ?? Infinity);
  const spot = active >= 0 ? spotOf(layout, active) : null;
  const label =
    `Map of ${plural(indexes.length, "node")} by the share of ${resourceWords(resource)} that is ${takenWord(resource)}. ` +
    (without ? `${count(without)} of them: ${lackWords(resource, divided)}, hatched. ` : "") +
    "Arrow keys name a node, Enter opens it.";
  if (!indexes.length) {
    return (
      <State icon="search" title="No node matches the filter">
        <p>Filter by name, zone, “cordoned” or “tainted”.</p>
      </State>
    );
  }
  return (
    <div class={below > layout.step / 2 ? "map more" : "map"}>
      <div
        ref={frame}
        class="map-frame"
        role="application"
        aria-label={label}
        tabIndex={0}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        onKeyDown={onKey}
        onPointerMove={(event) => setActive(under(event))}
        onPointerLeave={() => setActive(-1)}
        onClick={(event) => open(under(event))}
      >
        <div class="map-body" style={{ height: `${layout.height + 2 * MARGIN}px` }}>
          <canvas
            ref={canvas}
            class="map-canvas"
            aria-hidden="true"
            style={{ width: `${layout.width}px` }}
          />
        </div>
      </div>
      {spot && (
        <div
          class="map-tip-place"
          style={beside(spot, size, top, frame.current?.clientHeight ?? 0)}
        >
          <i style={{ flexBasis: `${spot.x + MARGIN}px` }} />
          <Tip nodes={nodes} resource={resource} node={active} />
        </div>
      )}
      <p class="hidden-label" aria-live="polite">
        {told}
      </p>
    </div>
  );
}

/** What a hatched node has not. */
export function lackWords(resource: string, divided: boolean): string {
  return divided && !isDevices(resource) ? "no NUMA cells" : `no ${resourceWords(resource)}`;
}

function takenWord(resource: string): string {
  return isDevices(resource) ? "reserved" : "requested";
}

function sentence(nodes: NodeColumns, resource: string, node: number): string {
  const zone = nodes.zone[node] ? `, zone ${nodes.zone[node]}` : "";
  const marks = [nodes.unschedulable[node] && "cordoned", nodes.taints[node] && "tainted"].filter(
    Boolean,
  );
  const share = shareOf(nodes, resource, node);
  const used = Number.isNaN(share)
    ? `has no ${resourceWords(resource)}`
    : `${percent(share)} of ${resourceWords(resource)} ${takenWord(resource)}`;
  return `${nodes.name[node]}${zone}: ${used}, ${plural(nodes.pods[node] ?? 0, "pod")}${marks
    .map((mark) => `, ${mark}`)
    .join("")}`;
}

/** Below a square, or above it in the lower half of the map, so that it is seen. */
function beside(spot: Spot, size: number, top: number, height: number): Record<string, string> {
  const y = spot.y + MARGIN - top;
  return y > height / 2
    ? { bottom: `calc(100% - ${y - FROM_SQUARE}px)` }
    : { top: `${y + size + FROM_SQUARE}px` };
}

interface TipProps {
  nodes: NodeColumns;
  resource: string;
  node: number;
}

function Tip({ nodes, resource, node }: TipProps) {
  const capacity = nodes.capacity[resource]?.[node] ?? 0;
  const requested = nodes.requested[resource]?.[node] ?? 0;
  const cells = nodes.cells?.[node];
  const devices = nodes.devices?.[node];
  const taints = nodes.taints[node] ?? 0;
  return (
    <div class="map-tip" aria-hidden="true">
      <strong>{nodes.name[node]}</strong>
      <span class="quieter">{nodes.zone[node] || "no zone"}</span>
      <span>
        {capacity ? (
          <>
            <b>{percent(requested / capacity)}</b> of {resourceWords(resource)}:{" "}
            {amount(resource, requested)} of {amount(resource, capacity)}
          </>
        ) : (
          <>has no {resourceWords(resource)}</>
        )}
      </span>
      <span>
        {nodes.pods[node]} of {plural(nodes.podLimit[node] ?? 0, "pod")}
      </span>
      {cells?.map(([allocatable, reported, reserved], number) => (
        <span key={number} class="small">
          cell {number}: {amount(resource, reserved)} reserved, {amount(resource, reported)}{" "}
          reported of {amount(resource, allocatable)}
        </span>
      ))}
      {devices && (
        <span class="small">
          {devices.filter((marks) => marks & RESERVED).length} reserved by the scheduler,{" "}
          {devices.filter((marks) => marks & REPORTED).length} reported by claims,{" "}
          {devices.filter((marks) => !marks).length} can be had
        </span>
      )}
      {nodes.unschedulable[node] && <span>Cordoned: no new pods</span>}
      {taints > 0 && <span>{plural(taints, "taint")}</span>}
    </div>
  );
}
