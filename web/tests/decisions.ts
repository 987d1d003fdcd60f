/** Decisions come by the stream and by answers, which may tell the same. */

import { deepEqual } from "node:assert/strict";
import { test } from "node:test";

import type { Decision } from "../src/api/types";
import { merged } from "../src/decisions";

function made(seq: number, time = seq): Decision {
  const rest = { result: "scheduled", node: "n", message: "", score: null, model: "" } as const;
  return { ...rest, seq, time, pod: "p", feasible: 1, evaluated: 1, duration: 0, plugins: [] };
}

function seqs(decisions: Decision[]): number[] {
  return decisions.map((each) => each.seq);
}

test("decisions that were told already are not told again", () => {
  deepEqual(seqs(merged([made(3), made(2)], [made(3), made(4)])), [4, 3, 2]);
});

test("what was decided while there was no stream has its place", () => {
  deepEqual(seqs(merged([made(9), made(2)], [made(3), made(2)])), [9, 3, 2]);
});

test("a scheduler that was started again counts from one", () => {
  deepEqual(seqs(merged([made(900), made(899)], [made(1, 1000), made(2, 1001)])), [2, 1]);
});
