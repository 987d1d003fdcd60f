/** Decisions of the stream and of answers, put together. */

import type { Decision } from "./api/types";

const MOST = 2000;

/** Those that are kept and those that were read, newest first; some may be among both. */
export function merged(kept: Decision[], read: Decision[]): Decision[] {
  const newest = kept[0];
  // A scheduler that was started again counts from one.
  const again = newest && read.some((each) => each.seq <= newest.seq && each.time > newest.time);
  const before = again ? [] : kept;
  const known = new Set(before.map((each) => each.seq));
  const fresh = read.filter((each) => !known.has(each.seq));
  return [...fresh, ...before].sort((a, b) => b.seq - a.seq).slice(0, MOST);
}
