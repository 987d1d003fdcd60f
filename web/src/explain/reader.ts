/** Explanations for the page, read by the worker. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { ApiError, getBytes, postForBytes, replica, token } from "../api/client";
import type { Loaded } from "../api/resource";
import type { Matrix, NodeDetail, Summary } from "./matrix";
import type { Question } from "./worker";

interface Waiting {
  resolve: (found: never) => void;
  reject: (fault: Error) => void;
}

type WithoutId<Q> = Q extends Question ? Omit<Q, "id"> : never;

let worker: Worker | null = null;
let last = 0;
const waiting = new Map<number, Waiting>();

function asked<T>(question: WithoutId<Question>, transfer: Transferable[] = []): Promise<T> {
  if (!worker) {
    worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener(
      "message",
      (event: MessageEvent<{ id: number; found: never; fault?: string }>) => {
        const { id, found, fault } = event.data;
        const asker = waiting.get(id);
        waiting.delete(id);
        if (fault) asker?.reject(new Error(fault));
        else asker?.resolve(found);
      },
    );
    worker.addEventListener("error", failed);
  }
  last += 1;
  const id = last;
  worker.postMessage({ ...question, id }, transfer);
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

/** The worker was not loaded: nobody waits for it any longer, and the next question tries again. */
function failed(): void {
  worker?.terminate();
  worker = null;
  const fault = new ApiError(0, "A part of the page was not loaded.");
  for (const asker of waiting.values()) asker.reject(fault);
  waiting.clear();
}

/** An explanation as the page holds it. */
export class Explained {
  constructor(
    private readonly key: number,
    readonly summary: Summary,
    readonly matrix: Matrix,
  ) {}

  /** Every rejection of one node, with its facts. */
  node(name: string): Promise<NodeDetail | null> {
    return asked({ ask: "node", key: this.key, node: name });
  }

  forget(): void {
    worker?.postMessage({ ask: "forget", key: this.key, id: 0 } satisfies Question);
  }
}

let keys = 0;

async function read(bytes: ArrayBuffer): Promise<Explained> {
  keys += 1;
  const key = keys;
  const found = await asked<{ summary: Summary; matrix: Matrix }>({ ask: "read", key, bytes }, [
    bytes,
  ]);
  replica.value = found.summary.replica;
  return new Explained(key, found.summary, found.matrix);
}

/**
 * Takes the explanation that a component shows: the one before is forgotten then, and the last when
 * the component goes. The worker keeps megabytes of each.
 */
export function useHeld(): (found: Explained | null) => void {
  const held = useRef<Explained | null>(null);
  const hold = useCallback((found: Explained | null) => {
    held.current?.forget();
    held.current = found;
  }, []);
  useEffect(() => () => hold(null), []);
  return hold;
}

function pathOf(parameters: Record<string, string>): string {
  return `api/v1/explain?${new URLSearchParams(parameters)}`;
}

/** Explain a manifest, in JSON; throws ApiError. */
export async function explainManifest(
  json: string,
  count: string,
  signal: AbortSignal,
): Promise<Explained> {
  return read(await postForBytes(pathOf(count ? { count } : {}), json, signal));
}

/** The explanation of a pod that exists; read again when `version` changes. */
export function useExplained(pod: string, version: unknown): Loaded<Explained> {
  const [data, setData] = useState<Explained | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [round, setRound] = useState(0);
  const hold = useHeld();
  const credential = token.value;

  useEffect(() => {
    hold(null);
    setData(null);
    setError(null);
  }, [pod]);

  useEffect(() => {
    const ending = new AbortController();
    const load = async (): Promise<void> => {
      try {
        const found = await read(await getBytes(pathOf({ pod }), ending.signal));
        if (ending.signal.aborted) return found.forget();
        hold(found);
        setData(found);
        setError(null);
      } catch (fault) {
        if (!ending.signal.aborted)
          setError(fault instanceof ApiError ? fault : new ApiError(0, String(fault)));
      }
    };
    void load();
    return () => ending.abort();
  }, [pod, version, round, credential]);

  const reload = useCallback(() => setRound((n) => n + 1), []);
  return { data, error, loading: data === null && error === null, reload };
}
