/** What a view shows when it has nothing to show, and the words for what pods do. */

import type { ComponentChildren } from "preact";

import type { ApiError } from "../api/client";
import type { Loaded } from "../api/resource";
import { Icon, type IconName } from "./icon";

interface StateProps {
  icon: IconName;
  title: string;
  tone?: "good" | "bad";
  children?: ComponentChildren;
}

export function State({ icon, title, tone, children }: StateProps) {
  return (
    <div class={`state ${tone ?? ""}`}>
      <Icon name={icon} />
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Loading({ lines = 6 }: { lines?: number }) {
  return (
    <div class="bones" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        <i key={line} />
      ))}
    </div>
  );
}

interface FailedProps {
  error: ApiError;
  again?: () => void;
  children?: ComponentChildren;
}

export function Failed({ error, again, children }: FailedProps) {
  const refused = error.isRefusal;
  return (
    <State
      icon={refused ? "lock" : "warning"}
      title={refused ? "You may not see this" : "This could not be read"}
      tone="bad"
    >
      <p role="alert">{error.message}</p>
      {again && (
        <button type="button" class="button" onClick={again}>
          <Icon name="refresh" small /> Try again
        </button>
      )}
      {children}
    </State>
  );
}

/** What is shown was read before; that nobody answers, or refuses, is told above all views. */
function Stale({ error }: { error: ApiError }) {
  if (error.isRefusal || error.status === 0 || error.status >= 502) return null;
  return (
    <p class="notice" role="status">
      <Icon name="warning" small />
      <span>This was read before. It could not be read again: {error.message}</span>
    </p>
  );
}

/** The data of a resource, or why there is none. */
export function Shown<T>({
  of,
  lines,
  children,
}: {
  of: Loaded<T>;
  lines?: number;
  children: (data: T) => ComponentChildren;
}) {
  if (of.data !== null)
    return (
      <>
        {of.error && <Stale error={of.error} />}
        {children(of.data)}
      </>
    );
  if (of.error) return <Failed error={of.error} again={of.reload} />;
  return <Loading lines={lines ?? 6} />;
}

type Tone = "good" | "warn" | "bad" | "info" | "hold" | "";

const STATES: Record<string, { word: string; tone: Tone }> = {
  active: { word: "In the queue", tone: "info" },
  backoff: { word: "Backing off", tone: "warn" },
  "error-backoff": { word: "Backing off after an error", tone: "bad" },
  unschedulable: { word: "Unschedulable", tone: "bad" },
  gated: { word: "Gated", tone: "hold" },
  group: { word: "Waits with its group", tone: "hold" },
  "in-flight": { word: "Being tried", tone: "info" },
  suspended: { word: "Waits for an answer", tone: "hold" },
  "waiting-on-permit": { word: "Waits for permission", tone: "hold" },
  permit: { word: "Waits for permission", tone: "hold" },
  binding: { word: "Being bound", tone: "info" },
  bound: { word: "Bound", tone: "good" },
  terminating: { word: "Terminating", tone: "" },
  ended: { word: "Ended", tone: "" },
  "other-scheduler": { word: "Another scheduler's", tone: "" },
  new: { word: "New", tone: "info" },
  standby: { word: "Pending", tone: "" },
};

/** What a state or a tier of the queue is called. */
export function stateWord(state: string): string {
  return STATES[state]?.word ?? state;
}

export function StateBadge({ state }: { state: string }) {
  return <span class={`badge ${STATES[state]?.tone ?? ""}`}>{stateWord(state)}</span>;
}
