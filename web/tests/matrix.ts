import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import type { Explanation, NodeVerdict, Rejection } from "../src/api/types";
import { FITS, matrixOf, REJECTS, RULES_OUT, summaryOf } from "../src/explain/matrix";

function rejection(plugin: string, code: string, ...reasons: string[]): Rejection {
  return { plugin, code, reasons, facts: [{ type: "x", message: `${plugin} says` }] };
}

function verdict(...all: Rejection[]): NodeVerdict {
  return { fit: !all.length, plugin: "", code: "", reasons: [], all };
}

const TAINT = rejection("TaintToleration", "UnschedulableAndUnresolvable", "taint");
const CPU = rejection("NodeResourcesFit", "Unschedulable", "Insufficient cpu");

const EXPLANATION = {
  pod: "a/b",
  nodes: {
    n1: verdict(CPU),
    n2: verdict(TAINT, CPU),
    n3: verdict(CPU),
    n4: verdict(),
    n5: verdict(),
  },
  scores: {
    n4: { total: 30, plugins: { NodeResourcesFit: 10, ImageLocality: 20 } },
    n5: { total: 30, plugins: { NodeResourcesFit: 20, ImageLocality: 10 } },
  },
  fit: ["n4", "n5"],
  remedies: [
    { summary: "s", opens: ["n1", "n2", "n3", "n4", "n5", "n6", "n7"], changes: [], affects: [] },
  ],
} as unknown as Explanation;

test("nodes with equal verdicts are of one kind, and so are those with equal scores", () => {
  const matrix = matrixOf(EXPLANATION);
  deepEqual(matrix.plugins, ["NodeResourcesFit", "TaintToleration", "ImageLocality"]);
  deepEqual(matrix.rejects, [3, 1, 0]);
  deepEqual([...matrix.kind], [0, 1, 0, 2, 3]);
  deepEqual(matrix.kinds[0]?.verdicts, [REJECTS, FITS, FITS]);
  deepEqual(matrix.kinds[1]?.verdicts, [REJECTS, RULES_OUT, FITS]);
  equal(matrix.kinds[1]?.rejections, 2);
  equal(matrix.fits, 2);
  deepEqual([...matrix.total], [NaN, NaN, NaN, 30, 30]);
  deepEqual([...(matrix.scores[2] ?? [])].slice(3), [20, 10]);
  equal(matrix.scores[1], null);
});

test("a node may be called as what every object has", () => {
  const nodes = { constructor: verdict(CPU), n4: verdict() };
  const matrix = matrixOf({ ...EXPLANATION, nodes });
  equal(matrix.fits, 1);
  deepEqual([...matrix.total], [NaN, 30]);
});

test("of a remedy the first nodes that it opens are named, and how many there are", () => {
  const [remedy] = summaryOf(EXPLANATION).remedies;
  equal(remedy?.opens, 7);
  deepEqual(remedy?.first, ["n1", "n2", "n3", "n4", "n5", "n6"]);
});
