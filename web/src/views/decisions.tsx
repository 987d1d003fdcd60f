/** Decisions as they are made. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { useResource } from "../api/resource";
import { streaming, useReopened, useStream } from "../api/stream";
import type { Decision } from "../api/types";
import type { DecisionsAnswer } from "../api/view_types";
import { merged } from "../decisions";
import { headline } from "../reasons";
import { link, place, podLink, setQuery } from "../router";
import { count, millis, moment } from "../ui/format";
import { Icon } from "../ui/icon";
import { Name } from "../ui/name";
import { Failed, Loading, State } from "../ui/states";
import { type Column, Search, Table } from "../ui/table";
import "../styles/decisions.css";

const FIRST = 1000;
/** How often new decisions are shown at most: whoever reads cannot follow more. */
const SHOW_MS = 300;

const RESULTS = {
  scheduled: { word: "Scheduled", tone: "good" },
  unschedulable: { word: "Unschedulable", tone: "bad" },
  error: { word: "Error", tone: "warn" },
  refused: { word: "Refused", tone: "bad" },
} as const;

type Result = keyof typeof RESULTS;

/** The decisions of the last while, newest first, and how many were not told. */
function useDecisions(paused: boolean) {
  const known = useResource<DecisionsAnswer>(`/api/v1/decisions?limit=${FIRST}`);
  const kept = useRef<Decision[]>([]);
  const skipped = useRef(0);
  const timer = useRef(0);
  const [shown, setShown] = useState<Decision[]>([]);

  const show = (): void => {
    timer.current = 0;
    setShown(kept.current);
  };
  const soon = (): void => {
    if (!paused) timer.current ||= window.setTimeout(show, SHOW_MS);
  };

  useStream({
    decisions: (fresh, left) => {
      skipped.current += left;
      kept.current = merged(kept.current, fresh);
      soon();
    },
  });
  useEffect(() => {
    if (!known.data) return;
    kept.current = merged(kept.current, known.data.decisions);
    if (!paused) show();
  }, [known.data]);
  useReopened(known.reload);
  useEffect(() => {
    if (!paused) show();
    return () => {
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [paused]);
  return { shown, skipped: skipped.current, known };
}

export function Decisions() {
  const { query } = place.value;
  const filter = query.get("filter") ?? "";
  const result = query.get("result") ?? "";
  const [paused, setPaused] = useState(false);
  const { shown, skipped, known } = useDecisions(paused);
  const counts = useMemo(() => {
    const found: Record<string, number> = {};
    for (const each of shown) found[each.result] = (found[each.result] ?? 0) + 1;
    return found;
  }, [shown]);
  /** Before the first answer there is nothing to count. */
  const told = known.data !== null || shown.length > 0;
  const rows = useMemo(() => {
    const wanted = filter.toLowerCase();
    return shown.filter(
      (each) =>
        (!result || each.result === result) &&
        (!wanted || `${each.pod} ${each.node} ${each.message}`.toLowerCase().includes(wanted)),
    );
  }, [shown, filter, result]);

  return (
    <div class="view">
      <header class="view-head">
        <div>
          <h1>Decisions</h1>
          <p>
            Every attempt to place a pod, as it is made.
            {skipped > 0 && ` ${count(skipped)} more were made too fast to be told.`}
          </p>
        </div>
        <Search
          value={filter}
          label="Filter decisions"
          onInput={(text) => setQuery({ filter: text || null })}
        />
      </header>
      <div class="toolbar">
        <div class="segments" role="group" aria-label="Result">
          <button type="button" aria-pressed={!result} onClick={() => setQuery({ result: null })}>
            All {told && <span class="number">{count(shown.length)}</span>}
          </button>
          {(Object.keys(RESULTS) as Result[]).map((each) => (
            <button
              key={each}
              type="button"
              aria-pressed={result === each}
              onClick={() => setQuery({ result: each })}
            >
              {RESULTS[each].word} {told && <span class="number">{count(counts[each] ?? 0)}</span>}
            </button>
          ))}
        </div>
        <span class="grow" />
        <Live paused={paused} />
        <button
          type="button"
          class="button small"
          aria-pressed={paused}
          onClick={() => setPaused(!paused)}
        >
          {paused ? "Go on" : "Pause"}
        </button>
      </div>
      <section class="card">
        {known.loading && !shown.length ? (
          <Loading lines={8} />
        ) : known.error && !shown.length ? (
          <Failed error={known.error} again={known.reload} />
        ) : (
          <Table
            label="Decisions, newest first"
            columns={COLUMNS}
            rows={rows}
            id={(row) => String(row.seq)}
            href={(row) => podLink(row.pod)}
            empty={
              <State
                icon="decisions"
                title={shown.length ? "No decision is so" : "Nothing was decided yet"}
              >
                <p>
                  {shown.length
                    ? "Another filter shows others."
                    : "Decisions appear here as they are made."}
                </p>
              </State>
            }
          />
        )}
      </section>
    </div>
  );
}

function Live({ paused }: { paused: boolean }) {
  const open = streaming.value === "open";
  const word = paused ? "Paused" : open ? "Live" : "Connecting";
  return (
    <span class="live" role="status">
      <i class={`dot ${paused ? "" : open ? "good pulse" : "warn"}`} /> {word}
    </span>
  );
}

const COLUMNS: Column<Decision>[] = [
  {
    name: "pod",
    title: "Pod",
    width: "minmax(0, 1.6fr)",
    by: (row) => row.pod,
    cell: (row) => <Name of={row.pod} />,
  },
  {
    name: "result",
    title: "Result",
    width: "8.5rem",
    by: (row) => row.result,
    cell: (row) => {
      const { word, tone } = RESULTS[row.result];
      return <span class={`badge ${tone}`}>{word}</span>;
    },
  },
  {
    name: "outcome",
    title: "Node, or why not",
    width: "minmax(0, 2.4fr)",
    from: 560,
    by: (row) => row.node || row.message,
    cell: (row) =>
      row.node ? (
        <a href={link("nodes", row.node)} tabIndex={-1} class="outcome">
          <Icon name="arrow" small /> <Name of={row.node} />
        </a>
      ) : (
        <span class="quiet" title={row.message}>
          {headline(row.message)}
        </span>
      ),
  },
  {
    name: "feasible",
    title: "Nodes that fit",
    width: "7.5rem",
    end: true,
    from: 980,
    by: (row) => row.feasible,
    // Members of a gang that cannot be placed are not judged one by one.
    cell: (row) =>
      row.evaluated ? (
        <span class="number">
          {count(row.feasible)} <span class="quieter">of {count(row.evaluated)}</span>
        </span>
      ) : (
        "–"
      ),
  },
  {
    name: "duration",
    title: "Took",
    width: "5.5rem",
    end: true,
    from: 760,
    by: (row) => row.duration,
    cell: (row) => <span class="number">{millis(1000 * row.duration)}</span>,
  },
  {
    name: "time",
    title: "When",
    width: "5.5rem",
    end: true,
    from: 420,
    by: (row) => row.seq,
    cell: (row) => <span class="number">{moment(row.time)}</span>,
  },
];
