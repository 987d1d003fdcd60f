/** Where the reader is: `#/pods/team/train-0?plugin=NodePorts`. A deep link to every view. */

import { computed, signal } from "@preact/signals";

export interface Place {
  /** The parts of the path, decoded: `["pods", "team", "train-0"]`. */
  path: string[];
  query: URLSearchParams;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    query: new URLSearchParams(query),
  };
}

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const place = computed(() => parse(hash.value));

/** The address of a view: `link("pods", "team", "train-0")`. */
export function link(...path: string[]): string {
  return `#/${path.map(encodeURIComponent).join("/")}`;
}

/** The address of a pod that is written as `namespace/name`. */
export function podLink(pod: string): string {
  const [namespace = "", name = ""] = pod.split("/", 2);
  return link("pods", namespace, name);
}

/** Go there, and let the back button lead back. */
export function go(address: string): void {
  location.hash = address;
}

/** Set or remove parameters of the present view, without a new entry in the history. */
export function setQuery(changes: Record<string, string | null>): void {
  const { path, query } = place.value;
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const text = next.toString();
  history.replaceState(history.state, "", `${link(...path)}${text ? `?${text}` : ""}`);
  hash.value = location.hash;
}
