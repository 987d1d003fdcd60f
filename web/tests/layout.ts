/** Where nodes are on the map, and where keys lead. */

import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import type { NodeColumns } from "../src/api/view_types";
import {
  arrange,
  chosen,
  fitting,
  lacks,
  nodeAt,
  shareOf,
  SIZES,
  spotOf,
  stepFrom,
} from "../src/nodes/layout";

/** Seven nodes, by turns in two zones; the last has no CPU, the first is cordoned. */
const nodes: NodeColumns = {
  name: ["n0", "n1", "n2", "n3", "n4", "n5", "n6"],
  zone: ["a", "b", "a", "b", "a", "b", ""],
  pods: [1, 9, 2, 3, 4, 5, 6],
  podLimit: [9, 9, 9, 9, 9, 9, 9],
  capacity: { cpu: [100, 100, 100, 100, 100, 100, 0] },
  requested: { cpu: [10, 90, 20, 80, 30, 70, 0] },
  unschedulable: [true, false, false, false, false, false, false],
  taints: [0, 2, 0, 0, 0, 0, 0],
  cells: null,
  devices: null,
};
const all = [0, 1, 2, 3, 4, 5, 6];

test("nodes are filtered by name, zone and marks", () => {
  deepEqual(chosen(nodes, ""), all);
  deepEqual(chosen(nodes, "N3"), [3]);
  deepEqual(chosen(nodes, "cordoned"), [0]);
  deepEqual(chosen(nodes, "tainted b"), [1]);
  deepEqual(chosen(nodes, "nothing"), []);
});

test("a node that has none is told from one where all is free", () => {
  const shown: NodeColumns = {
    ...nodes,
    capacity: { "device:d": [2, 0, 2, 0, 0, 0, 0], cpu: [9, 9, 9, 9, 9, 9, 0] },
    requested: { "device:d": [0, 0, 1, 0, 0, 0, 0], cpu: [0, 0, 0, 0, 0, 0, 0] },
    devices: [[0, 0], null, [1, 0], null, null, null, null],
  };
  const without = (resource: string, divided: boolean, of = shown): number[] =>
    all.filter((at) => lacks(of, resource, divided, at));
  deepEqual(without("device:d", false), [1, 3, 4, 5, 6]);
  deepEqual(without("device:d", true), [1, 3, 4, 5, 6]);
  deepEqual(without("cpu", false), [6]);
  const inCells = {
    ...shown,
    devices: null,
    cells: [null, [[9, 0, 0]], null, null, null, null, null],
  };
  deepEqual(without("cpu", true, inCells as NodeColumns), [0, 2, 3, 4, 5, 6]);
});

test("nodes are sorted, those without the resource last", () => {
  const sorted = (by: "name" | "use" | "free" | "pods"): number[] | undefined =>
    arrange(nodes, all, "cpu", by, "none", 8, 100).groups[0]?.nodes;
  deepEqual(sorted("name"), all);
  deepEqual(sorted("use"), [1, 3, 5, 4, 2, 0, 6]);
  deepEqual(sorted("free"), [0, 2, 4, 5, 3, 1, 6]);
  deepEqual(sorted("pods"), [1, 6, 5, 4, 3, 2, 0]);
  equal(Number.isNaN(shareOf(nodes, "cpu", 6)), true);
});

test("each node is found where it is", () => {
  for (const group of ["none", "zone"] as const) {
    const layout = arrange(nodes, all, "cpu", "name", group, 8, 20);
    equal(layout.perRow, 2);
    for (const node of all) {
      const spot = spotOf(layout, node) ?? { x: -9, y: -9 };
      equal(nodeAt(layout, spot.x + 1, spot.y + 1), node);
    }
    equal(nodeAt(layout, 50, 1), -1);
    equal(nodeAt(layout, 1, layout.height + 100), -1);
  }
});

test("zones are apart, nodes without one in a group of their own", () => {
  const layout = arrange(nodes, all, "cpu", "name", "zone", 8, 100);
  deepEqual(
    layout.groups.map((group) => [group.name, group.nodes]),
    [
      ["a", [0, 2, 4]],
      ["b", [1, 3, 5]],
      ["no zone", [6]],
    ],
  );
});

test("keys lead from node to node, across zones, and stay on the map", () => {
  const layout = arrange(nodes, all, "cpu", "name", "zone", 8, 20);
  equal(stepFrom(layout, -1, "ArrowRight"), 0);
  equal(stepFrom(layout, -1, "End"), 6, "also where no node is named yet");
  equal(stepFrom(layout, 0, "ArrowRight"), 2);
  equal(stepFrom(layout, 0, "ArrowDown"), 4);
  equal(stepFrom(layout, 4, "ArrowDown"), 1, "the first row of the next zone");
  equal(stepFrom(layout, 1, "ArrowUp"), 4);
  equal(stepFrom(layout, 0, "ArrowUp"), 0);
  equal(stepFrom(layout, 0, "End"), 6);
  equal(stepFrom(layout, 6, "ArrowRight"), 6);
  equal(stepFrom(layout, 6, "Home"), 0);
  equal(stepFrom(arrange(nodes, [], "cpu", "name", "none", 8, 20), -1, "End"), -1);
});

test("the first size of squares is one at which all nodes are seen, if there is one", () => {
  const sizes = (width: number, height: number): number[] =>
    [5, 24, 150, 600, 5000].map((nodes) => SIZES[fitting(nodes, 3, width, height)] ?? 0);
  deepEqual(sizes(296, 468), [84, 44, 18, 12, 12]); // a telephone
  deepEqual(sizes(1136, 540), [84, 84, 44, 18, 12]);
  deepEqual(sizes(3536, 1100), [116, 116, 116, 44, 18]); // 4k
});
