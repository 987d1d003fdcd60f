/** Where each node is on the map: groups with a heading, in each of them rows of squares. */

import type { NodeColumns } from "../api/view_types";

export type SortBy = "name" | "use" | "free" | "pods";
export type GroupBy = "none" | "zone";

export interface Group {
  name: string;
  /** Indexes of its nodes, in the order they are shown. */
  nodes: number[];
  /** Where its heading begins, and its first row. */
  top: number;
  first: number;
}

export interface Layout {
  groups: Group[];
  perRow: number;
  /** From one square to the next. */
  step: number;
  width: number;
  height: number;
}

export const HEADING = 30;
export const GAP = 2;
const BETWEEN = 14;

/** How large squares may be, in pixels; the largest are for large screens. */
export const SIZES = [8, 12, 18, 28, 44, 84, 116];
const LARGE_SCREEN = 1900;
/** Smaller ones are only for those who ask for them. */
const LEAST = 1;

/** The largest size at which so many nodes fit without scrolling, or the least; an index. */
export function fitting(nodes: number, groups: number, width: number, height: number): number {
  const largest = SIZES.length - (width >= LARGE_SCREEN ? 1 : 2);
  for (let index = largest; index > LEAST; index -= 1) {
    const step = (SIZES[index] ?? 0) + GAP;
    // The last row of each group is half full, more or less.
    const rows = Math.ceil((nodes * step) / Math.max(width, step)) + groups / 2;
    if (rows * step + groups * (HEADING + BETWEEN) <= height) return index;
  }
  return LEAST;
}

/** The share of the resource that is requested on a node; NaN if it has none. */
export function shareOf(nodes: NodeColumns, resource: string, at: number): number {
  const capacity = nodes.capacity[resource]?.[at] ?? 0;
  return capacity > 0 ? (nodes.requested[resource]?.[at] ?? 0) / capacity : Number.NaN;
}

/** Whether a node has none of what is shown: no such resource or device, or no parts. */
export function lacks(nodes: NodeColumns, resource: string, divided: boolean, at: number): boolean {
  if (Number.isNaN(shareOf(nodes, resource, at))) return true;
  return divided && !nodes.cells?.[at]?.length && !nodes.devices?.[at]?.length;
}

function order(nodes: NodeColumns, resource: string, by: SortBy): (a: number, b: number) => number {
  const name = (a: number, b: number): number => a - b; // the API sends them by name
  const value = (at: number): number => {
    if (by === "pods") return -(nodes.pods[at] ?? 0);
    const share = shareOf(nodes, resource, at);
    if (Number.isNaN(share)) return 2;
    return by === "use" ? -share : share;
  };
  return by === "name" ? name : (a, b) => value(a) - value(b) || name(a, b);
}

/** The indexes of the nodes that a filter leaves: `name`, `zone`, `tainted`, `cordoned`. */
export function chosen(nodes: NodeColumns, filter: string): number[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const all = nodes.name.map((_, at) => at);
  if (!words.length) return all;
  return all.filter((at) => {
    const marks = `${nodes.unschedulable[at] ? "cordoned" : ""} ${nodes.taints[at] ? "tainted" : ""}`;
    const text = `${nodes.name[at]} ${nodes.zone[at]} ${marks}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

export function arrange(
  nodes: NodeColumns,
  indexes: number[],
  resource: string,
  sort: SortBy,
  group: GroupBy,
  size: number,
  width: number,
): Layout {
  const step = size + GAP;
  const perRow = Math.max(1, Math.floor((width + GAP) / step));
  const members = new Map<string, number[]>();
  for (const at of [...indexes].sort(order(nodes, resource, sort))) {
    const name = group === "zone" ? nodes.zone[at] || "no zone" : "";
    const known = members.get(name);
    if (known) known.push(at);
    else members.set(name, [at]);
  }
  const names = [...members.keys()].sort();
  let top = 0;
  const groups = names.map((name) => {
    const own = members.get(name) ?? [];
    const first = top + (group === "none" ? 0 : HEADING);
    const made = { name, nodes: own, top, first };
    top = first + Math.ceil(own.length / perRow) * step + BETWEEN;
    return made;
  });
  return { groups, perRow, step, width, height: Math.max(0, top - BETWEEN) };
}

/** The node at a point of the map; -1 if there is none. */
export function nodeAt(layout: Layout, x: number, y: number): number {
  const { step, perRow } = layout;
  const group = layout.groups.find(
    (each) => y >= each.first && y < each.first + Math.ceil(each.nodes.length / perRow) * step,
  );
  const column = Math.floor(x / step);
  if (!group || column >= perRow || column < 0) return -1;
  return group.nodes[Math.floor((y - group.first) / step) * perRow + column] ?? -1;
}

export interface Spot {
  x: number;
  y: number;
}

/** Where a node is; null if it is not on the map. */
export function spotOf(layout: Layout, node: number): Spot | null {
  for (const group of layout.groups) {
    const place = group.nodes.indexOf(node);
    if (place >= 0) {
      return {
        x: (place % layout.perRow) * layout.step,
        y: group.first + Math.floor(place / layout.perRow) * layout.step,
      };
    }
  }
  return null;
}

/** The node that a key leads to from another. */
export function stepFrom(layout: Layout, node: number, key: string): number {
  const all = layout.groups.flatMap((group) => group.nodes);
  if (!all.length) return -1;
  const at = all.indexOf(node);
  if (key === "End") return all[all.length - 1] ?? -1;
  if (key === "Home" || at < 0) return all[0] ?? -1;
  if (key === "ArrowRight") return all[Math.min(at + 1, all.length - 1)] ?? -1;
  if (key === "ArrowLeft") return all[Math.max(at - 1, 0)] ?? -1;
  const spot = spotOf(layout, node);
  if (!spot) return node;
  const rows = key.startsWith("Page") ? 10 : 1;
  const down = key === "ArrowDown" || key === "PageDown";
  for (let away = rows; away > 0; away -= 1) {
    // Headings lie between groups: a row further on may be a little more than a step away.
    for (const slack of [0, HEADING + BETWEEN]) {
      const y = spot.y + (down ? 1 : -1) * (away * layout.step + slack);
      const found = nodeAt(layout, spot.x + 1, y + 1);
      if (found >= 0) return found;
    }
  }
  return node;
}
