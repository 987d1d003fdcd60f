/** The verdicts of all nodes as a table that is small enough to be sorted and drawn at once. */

import type { Explanation, NodeScore, NodeVerdict, Rejection } from "../api/types";

/** What one plugin says of a node. */
export const FITS = 0;
/** It rejects the node, and evictions could help. */
export const REJECTS = 1;
/** It rejects the node, and no eviction helps. */
export const RULES_OUT = 2;
export const FAILS = 3;

export interface Matrix {
  /** Plugins that reject or score some node; those that reject most first. */
  plugins: string[];
  /** How many nodes each of them rejects. */
  rejects: number[];
  nodes: string[];
  /** Of each node, the index of its kind. */
  kind: Uint32Array;
  /** Nodes with the same rejections, for the same reasons, are of one kind; or the same scores. */
  kinds: Kind[];
  /** Of each node that fits, its total; NaN of the others. */
  total: Float64Array;
  /** Of each plugin the weighted score of each node, NaN where it has none; null: of no node. */
  scores: (Float64Array | null)[];
  fits: number;
}

export interface Kind {
  /** What each plugin says, in the order of `plugins`. */
  verdicts: number[];
  /** The reasons of each, in the same order. */
  reasons: string[];
  rejections: number;
}

/** A remedy with the first of the nodes that it opens. */
export interface ShortRemedy {
  summary: string;
  opens: number;
  first: string[];
  changes: Explanation["remedies"][number]["changes"];
  affects: string[];
  replicas?: Explanation["remedies"][number]["replicas"];
}

/** An explanation without what only the matrix shows. */
export type Summary = Omit<Explanation, "nodes" | "scores" | "fit" | "remedies"> & {
  remedies: ShortRemedy[];
};

/** Everything about one node. */
export interface NodeDetail {
  name: string;
  rejections: Rejection[];
  score: NodeScore | null;
}

const NODES_NAMED = 6;

export function summaryOf(explanation: Explanation): Summary {
  const { nodes: _nodes, scores: _scores, fit: _fit, remedies, ...rest } = explanation;
  const short = remedies.map(({ opens, ...remedy }) => ({
    ...remedy,
    opens: opens.length,
    first: opens.slice(0, NODES_NAMED),
  }));
  return { ...rest, remedies: short };
}

function codeOf(rejection: Rejection): number {
  if (rejection.code === "Unschedulable") return REJECTS;
  return rejection.code === "Error" ? FAILS : RULES_OUT;
}

function pluginsOf(explanation: Explanation): Map<string, number> {
  const rejects = new Map<string, number>();
  for (const verdict of Object.values(explanation.nodes))
    for (const { plugin } of verdict.all) rejects.set(plugin, (rejects.get(plugin) ?? 0) + 1);
  for (const score of Object.values(explanation.scores))
    for (const plugin of Object.keys(score.plugins))
      if (!rejects.has(plugin)) rejects.set(plugin, 0);
  return new Map([...rejects].sort((a, b) => b[1] - a[1]));
}

/** Texts with their numbers left out: nodes that lack different amounts are of one kind. */
function kindOf(verdict: NodeVerdict, column: Map<string, number>): Kind {
  const verdicts = new Array<number>(column.size).fill(FITS);
  const reasons = new Array<string>(column.size).fill("");
  for (const rejection of verdict.all) {
    const at = column.get(rejection.plugin) ?? 0;
    verdicts[at] = codeOf(rejection);
    reasons[at] = rejection.reasons.join("; ");
  }
  return { verdicts, reasons, rejections: verdict.all.length };
}

/** The same for nodes that look alike. */
function keyOf(verdict: NodeVerdict, score: NodeScore | undefined): string {
  if (score) return Object.values(score.plugins).join();
  return verdict.all
    .map((each) => `${each.plugin}\0${each.code}\0${each.reasons.join("\0")}`)
    .join("\x01");
}

/** The scores of a node; one may be called `constructor`, which every object has. */
function scoreOf({ scores }: Explanation, node: string): NodeScore | undefined {
  return Object.hasOwn(scores, node) ? scores[node] : undefined;
}

export function matrixOf(explanation: Explanation): Matrix {
  const rejects = pluginsOf(explanation);
  const plugins = [...rejects.keys()];
  const column = new Map(plugins.map((plugin, at) => [plugin, at]));
  const nodes = Object.keys(explanation.nodes);
  const kind = new Uint32Array(nodes.length);
  const kinds: Kind[] = [];
  const known = new Map<string, number>();
  const total = new Float64Array(nodes.length).fill(NaN);
  const scores = plugins.map(() => null as Float64Array | null);
  let fits = 0;
  nodes.forEach((name, at) => {
    const verdict = explanation.nodes[name];
    if (!verdict) return;
    const score = scoreOf(explanation, name);
    const key = keyOf(verdict, score);
    let index = known.get(key);
    if (index === undefined) {
      index = kinds.push(kindOf(verdict, column)) - 1;
      known.set(key, index);
    }
    kind[at] = index;
    if (verdict.fit) fits += 1;
    if (!score) return;
    total[at] = score.total;
    for (const [plugin, value] of Object.entries(score.plugins)) {
      const of = column.get(plugin) ?? 0;
      const values = (scores[of] ??= new Float64Array(nodes.length).fill(NaN));
      values[at] = value;
    }
  });
  return { plugins, rejects: [...rejects.values()], nodes, kind, kinds, total, scores, fits };
}

export function detailOf(explanation: Explanation, name: string): NodeDetail {
  return {
    name,
    rejections: explanation.nodes[name]?.all ?? [],
    score: scoreOf(explanation, name) ?? null,
  };
}
