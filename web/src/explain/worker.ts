/**
 * Explanations of large clusters have megabytes. They are read here, beside the page, which gets
 * what it draws and asks for the rest node by node.
 */

import type { Explanation } from "../api/types";
import { detailOf, matrixOf, summaryOf } from "./matrix";

export type Question =
  | { id: number; ask: "read"; key: number; bytes: ArrayBuffer }
  | { id: number; ask: "node"; key: number; node: string }
  | { id: number; ask: "forget"; key: number };

const kept = new Map<number, Explanation>();

function answer(question: Question): unknown {
  if (question.ask === "forget") {
    kept.delete(question.key);
    return null;
  }
  if (question.ask === "node") {
    const known = kept.get(question.key);
    return known ? detailOf(known, question.node) : null;
  }
  const explanation = JSON.parse(new TextDecoder().decode(question.bytes)) as Explanation;
  kept.set(question.key, explanation);
  return { summary: summaryOf(explanation), matrix: matrixOf(explanation) };
}

addEventListener("message", (event: MessageEvent<Question>) => {
  const { id } = event.data;
  try {
    postMessage({ id, found: answer(event.data) });
  } catch (fault) {
    postMessage({ id, fault: String(fault) });
  }
});
