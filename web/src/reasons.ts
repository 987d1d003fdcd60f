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

/** Selectors and taints exclude nodes that were never meant: they are named last. */
function isExpected(text: string): boolean {
  return /taint|affinity\/selector|unschedulable/.test(text);
}

export function verdictOf(message: string): Verdict {
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
  if (!reasons.length) return text ? text.charAt(0).toUpperCase() + text.slice(1) : "Not tried yet";
  const telling = reasons.filter((reason) => !isExpected(reason.text));
  return (telling.length ? telling : reasons).map((reason) => reason.text).join(" · ");
}
