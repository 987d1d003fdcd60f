/** Paints the part of the map that is seen. Five thousand squares take a few milliseconds. */

import type { CellAmounts, NodeColumns } from "../api/view_types";
import { heat, textOn } from "../ui/scale";
import { isDevices, percent } from "../ui/amounts";
import { plural } from "../ui/format";
import { GAP, lacks, type Layout, shareOf } from "./layout";

export interface Picture {
  nodes: NodeColumns;
  resource: string;
  layout: Layout;
  size: number;
  dark: boolean;
  /** Whether squares are divided into NUMA cells or devices. */
  divided: boolean;
  /** The node that the pointer or the keyboard is on; -1: none. */
  active: number;
  /** How much larger than usual text is. */
  larger: number;
}

interface Colours {
  text: string;
  quiet: string;
  line: string;
  hatch: string;
  empty: string;
  focus: string;
  surface: string;
  font: string;
}

function coloursOf(canvas: HTMLCanvasElement): Colours {
  const style = getComputedStyle(canvas);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    text: read("--text"),
    quiet: read("--text-2"),
    line: read("--line-strong"),
    hatch: read("--text-3"),
    empty: read("--surface-2"),
    focus: read("--focus"),
    surface: read("--surface"),
    font: style.fontFamily,
  };
}

/** How a device is marked. */
export const RESERVED = 1;
export const REPORTED = 2;
/** Nobody has it, and nobody can: other devices have what it takes of shared counters. */
export const EXCLUDED = 4;

const LABELS_FROM = 44;
const NAMES_FROM = 72;
const STRIP = 18;
const HATCH = 8;

/** Paint the rows from `top` on, as many as there is room for. */
export function paint(
  canvas: HTMLCanvasElement,
  picture: Picture,
  top: number,
  height: number,
): void {
  const { layout, size } = picture;
  const ratio = devicePixelRatio || 1;
  const pixels = [Math.round(layout.width * ratio), Math.round(height * ratio)] as const;
  if (canvas.width !== pixels[0]) canvas.width = pixels[0];
  if (canvas.height !== pixels[1]) canvas.height = pixels[1];
  const context = canvas.getContext("2d");
  if (!context) return;
  const colours = coloursOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, -top * ratio);
  context.clearRect(0, top, layout.width, height);
  for (const group of layout.groups) {
    const rows = Math.ceil(group.nodes.length / layout.perRow);
    if (group.first + rows * layout.step < top || group.top > top + height) continue;
    if (group.first > group.top)
      heading(context, picture, group.name, group.nodes, group.top, colours);
    const from = Math.max(0, Math.floor((top - group.first) / layout.step));
    const to = Math.min(rows, Math.ceil((top + height - group.first) / layout.step));
    for (let place = from * layout.perRow; place < to * layout.perRow; place += 1) {
      const node = group.nodes[place];
      if (node === undefined) break;
      const x = (place % layout.perRow) * layout.step;
      const y = group.first + Math.floor(place / layout.perRow) * layout.step;
      square(context, picture, node, x, y, colours);
      if (node === picture.active) outline(context, layout.width, x, y, size, colours.focus);
    }
  }
}

function heading(
  context: CanvasRenderingContext2D,
  picture: Picture,
  name: string,
  members: number[],
  top: number,
  colours: Colours,
): void {
  const { nodes, resource, larger } = picture;
  let capacity = 0;
  let requested = 0;
  for (const at of members) {
    capacity += nodes.capacity[resource]?.[at] ?? 0;
    requested += nodes.requested[resource]?.[at] ?? 0;
  }
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = colours.text;
  context.font = `600 ${13 * larger}px ${colours.font}`;
  context.fillText(name, 0, top + 14);
  const width = context.measureText(name).width;
  context.fillStyle = colours.quiet;
  context.font = `400 ${13 * larger}px ${colours.font}`;
  context.fillText(
    `${plural(members.length, "node")}${capacity ? `, ${percent(requested / capacity)} ${isDevices(resource) ? "reserved" : "requested"}` : ""}`,
    width + 10,
    top + 14,
  );
}

function square(
  context: CanvasRenderingContext2D,
  picture: Picture,
  node: number,
  x: number,
  y: number,
  colours: Colours,
): void {
  const { nodes, resource, size, dark, larger } = picture;
  const share = shareOf(nodes, resource, node);
  const cells = picture.divided ? nodes.cells?.[node] : null;
  const devices = picture.divided ? nodes.devices?.[node] : null;
  const named = picture.divided && size >= NAMES_FROM;
  const high = named ? size - STRIP * larger : size;
  if (lacks(nodes, resource, picture.divided, node)) hatch(context, x, y, size, colours);
  else if (cells?.length) inCells(context, cells, x, y, size, high, dark, colours);
  else if (devices?.length) inDevices(context, devices, x, y, size, high, dark, colours);
  else {
    context.fillStyle = heat(share, dark);
    context.fillRect(x, y, size, size);
  }
  if (nodes.unschedulable[node]) cross(context, x, y, size, colours);
  else if (nodes.taints[node]) corner(context, x, y, size, colours);
  if (named) strip(context, picture, node, x, y, colours);
  else if (size >= LABELS_FROM && !picture.divided) {
    label(context, picture, node, share, x, y, colours);
  }
}

/** It has none of what is shown: hatched, so that it is not taken for one where all is free. */
function hatch(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  colours: Colours,
): void {
  context.fillStyle = colours.surface;
  context.fillRect(x, y, size, size);
  context.lineWidth = 1;
  context.strokeStyle = colours.line;
  context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  context.strokeStyle = colours.hatch;
  context.beginPath();
  const step = Math.min(HATCH, size / 2);
  for (let along = step; along < 2 * size; along += step) {
    const over = Math.max(0, along - size);
    const to = Math.min(along, size);
    context.moveTo(x + to, y + over);
    context.lineTo(x + over, y + to);
  }
  context.stroke();
}

/** Each cell is a column: above what is reserved, below what the node reports. */
function inCells(
  context: CanvasRenderingContext2D,
  cells: CellAmounts[],
  x: number,
  y: number,
  size: number,
  high: number,
  dark: boolean,
  colours: Colours,
): void {
  const width = size / cells.length;
  const half = Math.ceil(high / 2);
  const gap = width >= 6 ? 1 : 0;
  cells.forEach(([allocatable, reported, reserved], number) => {
    const left = x + Math.round(number * width);
    const wide = Math.max(1, Math.round((number + 1) * width) - Math.round(number * width) - gap);
    if (!allocatable) {
      context.fillStyle = colours.empty;
      context.fillRect(left, y, wide, high);
      return;
    }
    context.fillStyle = heat(reserved / allocatable, dark);
    context.fillRect(left, y, wide, half);
    context.fillStyle = heat(reported / allocatable, dark);
    context.fillRect(left, y + half, wide, high - half);
  });
}

/** How devices are laid out in a square: so many in a row, so many rows. */
export function deviceGrid(devices: number): { columns: number; rows: number } {
  const columns = Math.max(1, Math.ceil(Math.sqrt(devices)));
  return { columns, rows: Math.max(1, Math.ceil(devices / columns)) };
}

/**
 * Each device is a small rectangle: above whether it is reserved, below whether it is reported. One
 * that is free and yet not to be had is struck out.
 *
 * A map may hold 40,000 of them, so a colour is set once for all of a node, and devices that are
 * too small to be told apart by a gap are painted as one row where they are free.
 */
function inDevices(
  context: CanvasRenderingContext2D,
  devices: number[],
  x: number,
  y: number,
  width: number,
  height: number,
  dark: boolean,
  colours: Colours,
): void {
  const { columns, rows } = deviceGrid(devices.length);
  const wide = width / columns;
  const high = height / rows;
  const gap = Math.min(wide, high) >= 5 ? 1 : 0;
  const left = (column: number): number => x + Math.round(column * wide);
  const top = (row: number): number => y + Math.round(row * high);
  const highOf = (row: number): number => Math.max(1, top(row + 1) - top(row) - gap);
  const wideOf = (column: number): number => Math.max(1, left(column + 1) - left(column) - gap);
  context.fillStyle = colours.surface;
  context.fillRect(x, y, width, height);
  context.fillStyle = heat(0, dark);
  for (let row = 0; row < rows; row += 1) {
    const own = Math.min(columns, devices.length - row * columns);
    if (!gap) context.fillRect(x, top(row), left(own) - x, highOf(row));
    else
      for (let column = 0; column < own; column += 1)
        context.fillRect(left(column), top(row), wideOf(column), highOf(row));
  }
  context.fillStyle = heat(1, dark);
  devices.forEach((marks, number) => {
    if (!(marks & (RESERVED | REPORTED))) return;
    const column = number % columns;
    const row = Math.floor(number / columns);
    const half = Math.ceil(highOf(row) / 2);
    const from = marks & RESERVED ? 0 : half;
    const to = marks & REPORTED ? highOf(row) : half;
    context.fillRect(left(column), top(row) + from, wideOf(column), to - from);
  });
  if (!devices.some((marks) => marks & EXCLUDED)) return;
  context.lineWidth = 1;
  context.strokeStyle = colours.hatch;
  context.beginPath();
  devices.forEach((marks, number) => {
    if (!(marks & EXCLUDED)) return;
    const column = number % columns;
    const row = Math.floor(number / columns);
    context.moveTo(left(column), top(row) + highOf(row));
    context.lineTo(left(column) + wideOf(column), top(row));
  });
  context.stroke();
}

/** No pods may come: crossed out. */
function cross(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  colours: Colours,
): void {
  for (const [colour, width] of [
    [colours.surface, 3],
    [colours.text, 1.2],
  ] as const) {
    context.strokeStyle = colour;
    context.lineWidth = size < 14 ? width / 1.5 : width;
    context.beginPath();
    context.moveTo(x + 1, y + 1);
    context.lineTo(x + size - 1, y + size - 1);
    context.moveTo(x + size - 1, y + 1);
    context.lineTo(x + 1, y + size - 1);
    context.stroke();
  }
}

/** It has taints: a corner is cut. */
function corner(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  colours: Colours,
): void {
  const side = Math.max(4, Math.min(12, size / 3));
  context.fillStyle = colours.surface;
  context.beginPath();
  context.moveTo(x + size - side - GAP, y);
  context.lineTo(x + size, y);
  context.lineTo(x + size, y + side + GAP);
  context.fill();
  context.fillStyle = colours.text;
  context.beginPath();
  context.moveTo(x + size - side + 1, y);
  context.lineTo(x + size, y);
  context.lineTo(x + size, y + side - 1);
  context.fill();
}

function label(
  context: CanvasRenderingContext2D,
  picture: Picture,
  node: number,
  share: number,
  x: number,
  y: number,
  colours: Colours,
): void {
  const { size, nodes, dark } = picture;
  const named = size >= NAMES_FROM;
  const larger = named ? picture.larger : 1;
  const hollow = Number.isNaN(share);
  // What is hatched or crossed out would be crossed by its lines.
  if (hollow || nodes.unschedulable[node]) {
    context.fillStyle = hollow ? colours.surface : heat(share, dark);
    const high = (named ? 40 : 18) * larger;
    context.fillRect(x + 4, y + (size - high) / 2, size - 8, high);
  }
  context.fillStyle = hollow ? colours.quiet : textOn(share, dark);
  context.textAlign = "center";
  context.textBaseline = "middle";
  const [middle, centre] = [x + size / 2, y + size / 2];
  context.font = `600 ${named ? 15 * larger : 12}px ${colours.font}`;
  context.fillText(hollow ? "none" : percent(share), middle, centre - (named ? 4 * larger : 0));
  if (!named) return;
  context.font = `400 ${11 * larger}px ${colours.font}`;
  const name = ending(context, nodes.name[node] ?? "", size - 10);
  context.fillText(name, middle, centre + 16 * larger);
}

/** The name below a square that is divided into cells. */
function strip(
  context: CanvasRenderingContext2D,
  picture: Picture,
  node: number,
  x: number,
  y: number,
  colours: Colours,
): void {
  const { size, nodes, larger } = picture;
  const high = STRIP * larger;
  context.fillStyle = colours.empty;
  context.fillRect(x, y + size - high, size, high);
  context.fillStyle = (nodes.devices ?? nodes.cells)?.[node] ? colours.text : colours.quiet;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `400 ${11 * larger}px ${colours.font}`;
  context.fillText(
    ending(context, nodes.name[node] ?? "", size - 8),
    x + size / 2,
    y + size - high / 2,
  );
}

/** As much of a name as there is room for: names begin alike, their end tells nodes apart. */
function ending(context: CanvasRenderingContext2D, name: string, width: number): string {
  let text = name;
  while (text.length > 4 && context.measureText(text).width > width) text = `…${text.slice(2)}`;
  return text;
}

/** Around a square, and within the canvas, which ends where the first and the last squares do. */
function outline(
  context: CanvasRenderingContext2D,
  width: number,
  x: number,
  y: number,
  size: number,
  colour: string,
): void {
  const left = Math.max(1, x - 1);
  const top = Math.max(1, y - 1);
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.strokeRect(left, top, Math.min(x + size + 1, width - 1) - left, y + size + 1 - top);
}
