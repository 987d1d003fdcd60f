/** A pod that does not exist, or one that is changed: where would it go? Nothing is created. */

import { useEffect, useRef, useState } from "preact/hooks";

import { ApiError, get } from "../api/client";
import { useResource } from "../api/resource";
import type { QueueAnswer } from "../api/types";
import { type Explained, explainManifest, useHeld } from "../explain/reader";
import { ManifestError, readManifest, writeManifest } from "../manifest";
import { place, setQuery } from "../router";
import { count, plural } from "../ui/format";
import { Icon } from "../ui/icon";
import { State } from "../ui/states";
import { ExplanationBody } from "./explanation";
import "../styles/whatif.css";

const EXAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: what-if
  namespace: default
spec:
  containers:
    - name: main
      image: example
      resources:
        requests:
          cpu: "2"
          memory: 4Gi
`;
const NAMES = 200;
const MOST_REPLICAS = 10_000;

interface Answer {
  explained: Explained | null;
  fault: string;
  busy: boolean;
}

/** What it came to. */
interface Outcome {
  node: string | null;
  fits: number;
}

/** What the reader has written, kept with this place in the history: a way back leads to it. */
interface Draft {
  pod: string;
  text: string;
}

function draftOf(pod: string): string {
  const kept = history.state as Partial<Draft> | null;
  return kept?.pod === pod ? (kept.text ?? "") : "";
}

function keepDraft(draft: Draft): void {
  history.replaceState(draft, "");
}

const NOTHING: Answer = { explained: null, fault: "", busy: false };

export function WhatIf() {
  const picked = place.value.query.get("pod") ?? "";
  const [text, setText] = useState(() => draftOf(picked) || (picked ? "" : EXAMPLE));
  const [replicas, setReplicas] = useState("");
  const [answer, setAnswer] = useState(NOTHING);
  /** How it is without any change; null for a manifest that was pasted. */
  const [before, setBefore] = useState<Outcome | null>(null);
  const asking = useRef<AbortController | null>(null);
  const hold = useHeld();

  const ask = async (manifest: string, asked: string): Promise<Outcome | null> => {
    asking.current?.abort();
    const ending = new AbortController();
    asking.current = ending;
    setAnswer((before) => ({ ...before, busy: true, fault: "" }));
    try {
      const read = await readManifest(manifest);
      const wanted = asked || (read.replicas ? String(read.replicas) : "");
      const explained = await explainManifest(read.json, wanted, ending.signal);
      if (ending.signal.aborted) {
        explained.forget();
        return null;
      }
      hold(explained);
      setAnswer({ explained, fault: "", busy: false });
      const { node, wouldGoTo } = explained.summary;
      return { node: node ?? wouldGoTo, fits: explained.matrix.fits };
    } catch (fault) {
      if (ending.signal.aborted) return null;
      const known = fault instanceof ApiError || fault instanceof ManifestError;
      setAnswer((before) => ({
        ...before,
        busy: false,
        fault: known ? fault.message : String(fault),
      }));
      return null;
    }
  };

  useEffect(() => {
    setBefore(null);
    if (!picked) return;
    const ending = new AbortController();
    const load = async (): Promise<void> => {
      try {
        const path = `api/v1/pod?pod=${encodeURIComponent(picked)}`;
        const { manifest } = await get<{ manifest: unknown }>(path, ending.signal);
        const written = await writeManifest(manifest);
        if (ending.signal.aborted) return;
        const changed = draftOf(picked);
        setText(changed || written);
        setBefore(await ask(written, ""));
        if (changed && !ending.signal.aborted) await ask(changed, "");
      } catch (fault) {
        if (ending.signal.aborted) return;
        hold(null);
        setAnswer({ ...NOTHING, fault: fault instanceof Error ? fault.message : String(fault) });
      }
    };
    void load();
    return () => ending.abort();
  }, [picked]);

  useEffect(() => () => asking.current?.abort(), []);

  const submit = (event: Event): void => {
    event.preventDefault();
    keepDraft({ pod: picked, text });
    void ask(text, replicas);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };

  return (
    <div class="view">
      <div class="view-head">
        <div>
          <h1>What if</h1>
          <p>
            Paste a manifest or pick a pod, change it, and see where it would go in the cluster as
            it is now. Nothing is created.
          </p>
        </div>
      </div>
      <div class="whatif">
        <form class="card whatif-form" onSubmit={submit}>
          <PickPod picked={picked} />
          <label class="stack tight">
            <span class="row spread wrap">
              <span>Manifest</span>
              <span class="small quieter">YAML or JSON; a Pod, or a workload with a template</span>
            </span>
            <textarea
              class="field editor"
              rows={20}
              spellcheck={false}
              autocomplete="off"
              autocapitalize="off"
              value={text}
              aria-describedby="whatif-fault"
              aria-invalid={answer.fault !== ""}
              onInput={(event) => setText(event.currentTarget.value)}
              onChange={(event) => keepDraft({ pod: picked, text: event.currentTarget.value })}
              onKeyDown={onKey}
            />
          </label>
          {answer.fault && (
            <p class="whatif-fault" id="whatif-fault" role="alert">
              <Icon name="warning" small /> <span>{answer.fault}</span>
            </p>
          )}
          <div class="row wrap spread">
            <label class="row">
              <span>How many of them</span>
              <input
                class="field replicas"
                type="number"
                min={1}
                max={MOST_REPLICAS}
                placeholder="1"
                value={replicas}
                onInput={(event) => setReplicas(event.currentTarget.value)}
              />
            </label>
            <button type="submit" class="button primary" disabled={answer.busy}>
              <Icon name="whatif" small /> {answer.busy ? "Trying" : "Try it"}
            </button>
          </div>
        </form>
        <div class="stack" aria-live="polite" aria-busy={answer.busy}>
          {answer.explained ? (
            <div class={answer.busy || answer.fault ? "stack dimmed" : "stack"}>
              <ExplanationBody
                hypothetical
                explained={answer.explained}
                extra={
                  <>
                    {before && <Before pod={picked} was={before} now={answer.explained} />}
                    <Together explained={answer.explained} />
                  </>
                }
              />
            </div>
          ) : (
            <div class="card">
              <State icon="whatif" title="Where would it go?">
                <p>
                  Try it with the button, or with <kbd>Ctrl</kbd> <kbd>Enter</kbd>. The answer is
                  that of the scheduler that runs, with its plugins and its configuration.
                </p>
              </State>
            </div>
          )}
        </div>
      </div>
    </div>
  );
}

function PickPod({ picked }: { picked: string }) {
  const pending = useResource<QueueAnswer>(`api/v1/queue?limit=${NAMES}`);
  const [name, setName] = useState(picked);
  useEffect(() => setName(picked), [picked]);
  const choose = (text: string): void => {
    setName(text);
    if (/^[^/\s]+\/[^/\s]+$/.test(text)) setQuery({ pod: text });
  };
  return (
    <label class="stack tight">
      <span>Start from a pod</span>
      <input
        class="field mono"
        list="pending-pods"
        placeholder="namespace/name"
        autocomplete="off"
        spellcheck={false}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        onChange={(event) => choose(event.currentTarget.value)}
      />
      <datalist id="pending-pods">
        {pending.data?.pods.map((pod) => (
          <option key={pod.pod} value={pod.pod} />
        ))}
      </datalist>
    </label>
  );
}

/** What the change makes of it. */
function Before({ pod, was, now }: { pod: string; was: Outcome; now: Explained }) {
  const node = now.summary.node ?? now.summary.wouldGoTo;
  if (was.node === node && was.fits === now.matrix.fits) return null;
  const said = ({ node: found, fits }: Outcome): string =>
    found ? `goes to ${found}, ${plural(fits, "node")} fit` : "no node fits";
  return (
    <section class="card before" aria-label="Compared with the pod as it is">
      <div>
        <span class="small quieter">{pod} as it is</span>
        <p>{said(was)}</p>
      </div>
      <Icon name="arrow" />
      <div>
        <span class="small quieter">changed</span>
        <p>
          <strong>{said({ node, fits: now.matrix.fits })}</strong>
        </p>
      </div>
    </section>
  );
}

/** How many pods like it fit together. */
function Together({ explained }: { explained: Explained }) {
  const { replicas } = explained.summary;
  if (!replicas) return null;
  const nodes = Object.entries(replicas.nodes).sort((a, b) => b[1] - a[1]);
  const most = nodes[0]?.[1] ?? 1;
  return (
    <section class="card">
      <div class="card-head">
        <h2>
          {count(replicas.fit)} of {count(replicas.asked)} fit together
        </h2>
        <p>{plural(nodes.length, "node")}</p>
      </div>
      <div class="card-body stack">
        {replicas.message && <p class="quiet">{replicas.message}</p>}
        <ul class="together">
          {nodes.slice(0, 24).map(([node, pods]) => (
            <li key={node}>
              <span class="mono cut" title={node}>
                {node}
              </span>
              <span class="bar" aria-hidden="true">
                <i style={{ width: `${(100 * pods) / most}%` }} />
              </span>
              <span class="number">{count(pods)}</span>
            </li>
          ))}
        </ul>
        {nodes.length > 24 && (
          <p class="small quieter">and {plural(nodes.length - 24, "more node")}</p>
        )}
      </div>
    </section>
  );
}
