/** One pod: its state, why it is there, what would help, and the verdict of every node. */

import { useState } from "preact/hooks";

import type { ApiError } from "../api/client";
import { useResource } from "../api/resource";
import type { Decision } from "../api/types";
import { useExplained } from "../explain/reader";
import { go, link, place, podLink } from "../router";
import { Icon } from "../ui/icon";
import { Failed, Loading, State, StateBadge } from "../ui/states";
import { ExplanationBody } from "./explanation";

const LOOK_MS = 2000;
/** A pod that nobody decides about is explained again after so many looks. */
const SLOW = 8;

export function PodView() {
  const [, namespace, name] = place.value.path;
  if (!namespace || !name) return <PickPod />;
  return <OnePod key={`${namespace}/${name}`} pod={`${namespace}/${name}`} />;
}

function OnePod({ pod }: { pod: string }) {
  const version = useVersion(pod);
  const found = useExplained(pod, version);
  const [namespace, name] = pod.split("/", 2);
  return (
    <div class="view">
      <div class="view-head">
        <div>
          <p class="small">
            <a href={link("pending")}>Pending pods</a> <span class="quieter">/ {namespace}</span>
          </p>
          <h1 class="row wrap">
            {name} {found.data && <StateBadge state={found.data.summary.standing.state} />}
          </h1>
        </div>
        <div class="row">
          <button type="button" class="button" onClick={found.reload}>
            <Icon name="refresh" small /> Explain again
          </button>
          <a class="button" href={`${link("what-if")}?pod=${encodeURIComponent(pod)}`}>
            <Icon name="whatif" small /> Try a change
          </a>
        </div>
      </div>
      {found.data && found.error && <Gone error={found.error} />}
      {found.data ? (
        <ExplanationBody explained={found.data} />
      ) : (
        <div class="card">
          {found.error?.status === 404 ? (
            <State icon="empty" title="There is no such pod">
              <p>{found.error.message}</p>
              <a class="button" href={link("pending")}>
                Pods that wait
              </a>
            </State>
          ) : found.error ? (
            <Failed error={found.error} again={found.reload} />
          ) : (
            <Loading lines={12} />
          )}
        </div>
      )}
    </div>
  );
}

/** What is shown is the last that was heard of the pod. */
function Gone({ error }: { error: ApiError }) {
  return (
    <p class="notice" role="status">
      <Icon name="warning" small />
      {error.status === 404
        ? "The pod is gone. This is the last that was said about it."
        : `It could not be explained again: ${error.message}`}
    </p>
  );
}

/** Changes when something is decided about the pod, and from time to time. */
function useVersion(pod: string): string {
  const decided = useResource<{ decisions: Decision[] }>(
    `api/v1/decisions?limit=1&pod=${encodeURIComponent(pod)}`,
    { every: LOOK_MS },
  );
  const seq = decided.data?.decisions[0]?.seq ?? 0;
  const slow = Math.floor(Date.now() / (LOOK_MS * SLOW));
  return `${seq} ${slow}`;
}

function PickPod() {
  const [text, setText] = useState("");
  const open = (event: Event): void => {
    event.preventDefault();
    const [namespace, name] = text.includes("/") ? text.split("/", 2) : ["default", text];
    if (namespace && name) go(podLink(`${namespace}/${name}`));
  };
  return (
    <div class="view">
      <h1>Which pod?</h1>
      <form class="toolbar" onSubmit={open}>
        <label class="row">
          <span class="hidden-label">Pod, as namespace/name</span>
          <input
            class="field mono"
            placeholder="namespace/name"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button primary">
          Explain
        </button>
      </form>
    </div>
  );
}
