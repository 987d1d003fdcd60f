/** Data of one path, read again and again while it is looked at. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { ApiError, get, token } from "./client";

export interface Loaded<T> {
  /** The last answer; it stays while later requests fail. */
  data: T | null;
  /** Why the last request failed; null if it did not. */
  error: ApiError | null;
  /** Whether there is nothing to show yet. */
  loading: boolean;
  /** Read it again now. */
  reload: () => void;
}

/** Of the time of whoever answers, the page takes at most so small a part. */
const SHARE = 12;

/**
 * Read `path` now and, with `every`, so many milliseconds after each answer; later if the answer
 * took long, and not while the tab is hidden. Null reads nothing. Another path begins without data,
 * unless `keep` is set.
 */
export function useResource<T>(
  path: string | null,
  { every = 0, keep = false }: { every?: number; keep?: boolean } = {},
): Loaded<T> {
  const [data, setData] = useState<T | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [round, setRound] = useState(0);
  const shown = useRef<string | null>(null);
  const credential = token.value;

  useEffect(() => {
    if (shown.current !== path && !keep) {
      setData(null);
      setError(null);
    }
    shown.current = path;
    if (path === null) return;
    const ending = new AbortController();
    let timer = 0;
    const again = (wait: number): void => {
      timer = window.setTimeout(() => void read(), wait);
    };
    const read = async (): Promise<void> => {
      if (document.hidden) return again(1000);
      const began = performance.now();
      try {
        const found = await get<T>(path, ending.signal);
        if (ending.signal.aborted) return;
        setData(() => found);
        setError(null);
      } catch (fault) {
        if (ending.signal.aborted) return;
        setError(fault instanceof ApiError ? fault : new ApiError(0, String(fault)));
      }
      if (every) again(Math.max(every, SHARE * (performance.now() - began)));
    };
    void read();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [path, every, keep, round, credential]);

  const reload = useCallback(() => setRound((n) => n + 1), []);
  return { data, error, loading: path !== null && data === null && error === null, reload };
}
