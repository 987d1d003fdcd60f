import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import { headline, verdictOf, withoutNames } from "../src/reasons";

const MESSAGE =
  "0/100 nodes are available: 13 node(s) had untolerated taint(s), 5 Insufficient cpu, 82 Insufficient memory. " +
  "no new claims to deallocate, preemption: 0/100 nodes are available: 100 Preemption is not helpful for scheduling.";

test("a verdict is taken apart, most telling first, without what preemption says", () => {
  const verdict = verdictOf(MESSAGE);
  equal(verdict.total, 100);
  deepEqual(verdict.reasons, [
    { nodes: 82, text: "Insufficient memory" },
    { nodes: 5, text: "Insufficient cpu" },
    { nodes: 13, text: "Had untolerated taint(s)" },
  ]);
});

test("a headline leaves out nodes that were never meant", () => {
  equal(headline(MESSAGE), "Insufficient memory · Insufficient cpu");
});

test("where nothing else is said, taints are what it is about", () => {
  equal(
    headline("0/3 nodes are available: 3 node(s) had untolerated taint(s)."),
    "Had untolerated taint(s)",
  );
});

test("a reason may have commas and numbers of its own", () => {
  const text =
    "0/2 nodes are available: 2 has 3 cells, none of them free, 1 Insufficient example.com/gpu-v1.5.";
  deepEqual(verdictOf(text).reasons, [
    { nodes: 2, text: "Has 3 cells, none of them free" },
    { nodes: 1, text: "Insufficient example.com/gpu-v1.5" },
  ]);
});

test("other texts are shown as they are", () => {
  equal(headline("waiting for scheduling gates: [a]"), "Waiting for scheduling gates: [a]");
  equal(headline(""), "Not tried yet");
});

test("of a gang it is told why its first member has no node", () => {
  const gang = `pod group team/train: 0 of 4 members can be placed; team/train-0: ${MESSAGE}`;
  equal(headline(gang), "Gang: Insufficient memory · Insufficient cpu");
  equal(verdictOf(gang).total, 100);
  equal(headline("pod group team/train: 3 of 8 members exist"), "Gang: 3 of 8 members exist");
});

test("reasons that only name different objects have the same words", () => {
  const claim = (name: string): string => headline(`persistentvolumeclaim "${name}" not found`);
  equal(withoutNames(claim("a")), withoutNames(claim("b")));
  equal(withoutNames(claim("a")), "Persistentvolumeclaim … not found");
  equal(withoutNames("Pod group team/a does not exist"), "Pod group … does not exist");
  equal(withoutNames("Insufficient cpu"), "Insufficient cpu");
});
