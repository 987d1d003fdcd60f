/** The text of a verdict taken apart: `0/100 nodes are available: 87 Insufficient cpu, 13 …`. */

export interface Reason {
  text: string;
  nodes: number;
}

export interface Verdict {
  /** How many nodes were looked at; 0 if the text does not say. */
  total: number;
  /** Most telling first. */
  reasons: Reason[];
  /** The text without what preemption says, for verdicts that count no nodes. */
  text: string;
}

const HEAD = /^(\d+)\/(\d+) nodes are available: /;
/** What the verdict on a gang begins with: its name, and the first member that has no node. */
const GANG = /^pod group \S+: (?:\d+ of \d+ members can be placed; \S+: )?/;
/** Names of objects, which differ where the reason is the same. */
const NAMES = /"[^"]*"|(?<=^Pod group )\S+/g;

/** Selectors and taints exclude nodes that were never meant: they are named last. */
function isExpected(text: string): boolean {
  return /taint|affinity\/selector|unschedulable/.test(text);
}

export function verdictOf(whole: string): Verdict {
  const message = whole.replace(GANG, "");
  const head = HEAD.exec(message);
  if (!head) return { total: 0, reasons: [], text: message };
  const rest = message.slice(head[0].length);
  const end = rest.search(/\.(\s|$)/);
  const body = end >= 0 ? rest.slice(0, end) : rest;
  const reasons = body
    .split(/, (?=\d+ )/)
    .map((part) => /^(\d+) (.*)$/.exec(part))
    .filter((found) => found !== null)
    .map((found) => ({ nodes: Number(found[1]), text: tidied(found[2] ?? "") }))
    .sort((a, b) => Number(isExpected(a.text)) - Number(isExpected(b.text)) || b.nodes - a.nodes);
  return { total: Number(head[2]), reasons, text: body };
}

/** A reason without what it has in common with all others, as a sentence begins. */
export function tidied(text: string): string {
  const plain = text.replace(/^node\(s\) /, "");
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

/** One line for a list: the telling reasons without the others. */
export function headline(message: string): string {
  const { reasons, text } = verdictOf(message);
  const telling = reasons.filter((reason) => !isExpected(reason.text));
  const words = (telling.length ? telling : reasons).map((reason) => reason.text).join(" · ");
  const said = words || text || "not tried yet";
  return (GANG.test(message) ? "Gang: " : "") + said.charAt(0).toUpperCase() + said.slice(1);
}

/** What headlines have in common that name different objects. */
export function withoutNames(title: string): string {
  return title.replace(NAMES, "…");
}
