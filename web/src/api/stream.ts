/**
 * Decisions and samples as they come. All views of a tab share one connection; there is none while
 * nobody listens or the tab is hidden. `fetch` is used since an EventSource sends no token.
 */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { address, headers, token } from "./client";
import type { Decision } from "./types";
import type { Sample } from "./view_types";

export interface Listener {
  /** What one look at the scheduler brought, oldest first, and how many were left out before. */
  decisions?: (fresh: Decision[], skipped: number) => void;
  overview?: (sample: Sample) => void;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** A stream that has lasted for so long is opened again at once when it ends. */
const STEADY_MS = 5_000;
/** The scheduler sends something every ten seconds; a connection without is dead. */
const SILENT_MS = 30_000;

/** Whether the stream is open; "waiting" while it is opened again. */
export const streaming = signal<"off" | "open" | "waiting">("off");

const listeners = new Set<Listener>();
let ending: AbortController | null = null;

interface Message {
  event: string;
  data: string;
}

/** The whole messages at the beginning of a text, and what is left of it. */
export function split(text: string): [Message[], string] {
  const blocks = text.split("\n\n");
  const rest = blocks.pop() ?? "";
  const messages: Message[] = [];
  for (const block of blocks) {
    const message = { event: "", data: "" };
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) message.event = line.slice(7);
      else if (line.startsWith("data: ")) message.data += line.slice(6);
    }
    if (message.event) messages.push(message);
  }
  return [messages, rest];
}

function tell(messages: Message[]): void {
  const decisions: Decision[] = [];
  let skipped = 0;
  let sample: Sample | null = null;
  for (const { event, data } of messages) {
    if (event === "decision") decisions.push(JSON.parse(data) as Decision);
    else if (event === "skipped") skipped += (JSON.parse(data) as { count: number }).count;
    else if (event === "overview") sample = JSON.parse(data) as Sample;
  }
  for (const listener of listeners) {
    if (decisions.length || skipped) listener.decisions?.(decisions, skipped);
    if (sample) listener.overview?.(sample);
  }
}

async function read(stopped: AbortSignal): Promise<void> {
  const silence = new AbortController();
  let timer = 0;
  const heard = (): void => {
    clearTimeout(timer);
    timer = window.setTimeout(() => silence.abort(), SILENT_MS);
  };
  heard();
  try {
    const response = await fetch(address("/api/v1/stream"), {
      headers: { Accept: "text/event-stream", ...headers() },
      signal: AbortSignal.any([stopped, silence.signal]),
      credentials: "same-origin",
      cache: "no-store",
    });
    if (!response.ok || !response.body) throw new Error(`${response.status}`);
    streaming.value = "open";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const [messages, rest] = split(text + value);
      text = rest;
      tell(messages);
    }
  } finally {
    clearTimeout(timer);
  }
}

async function follow(stopped: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  while (!stopped.aborted) {
    const began = performance.now();
    try {
      await read(stopped);
    } catch {
      // It is opened again.
    }
    const steady = performance.now() - began >= STEADY_MS;
    wait = steady ? FIRST_WAIT_MS : Math.min(2 * wait, LONGEST_WAIT_MS);
    if (stopped.aborted) return;
    streaming.value = "waiting";
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function adjust(): void {
  const wanted = listeners.size > 0 && !document.hidden;
  if (wanted && !ending) {
    ending = new AbortController();
    streaming.value = "waiting";
    void follow(ending.signal);
  } else if (!wanted && ending) {
    ending.abort();
    ending = null;
    streaming.value = "off";
  }
}

document.addEventListener("visibilitychange", adjust);
token.subscribe(() => {
  ending?.abort();
  ending = null;
  adjust();
});

/** Listen while the component is there; the functions may change between two renders. */
export function useStream(listener: Listener): void {
  const newest = useRef(listener);
  newest.current = listener;
  useEffect(() => {
    const mine: Listener = {
      decisions: (fresh, skipped) => newest.current.decisions?.(fresh, skipped),
      overview: (sample) => newest.current.overview?.(sample),
    };
    listeners.add(mine);
    adjust();
    return () => {
      listeners.delete(mine);
      adjust();
    };
  }, []);
}

/** Call a function when the stream is open again: what has happened meanwhile was not told. */
export function useReopened(reload: () => void): void {
  const opened = useRef(false);
  const open = streaming.value === "open";
  useEffect(() => {
    if (!open) return;
    if (opened.current) reload();
    opened.current = true;
  }, [open]);
}
