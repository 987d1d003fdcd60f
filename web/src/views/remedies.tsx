/** Remedies: what to change so that a pod runs, as commands to copy. */

import { useState } from "preact/hooks";

import { useResource } from "../api/resource";
import type { ShortRemedy } from "../explain/matrix";
import { useExplained } from "../explain/reader";
import { commandOf, followsTemplate, needsNewPod } from "../kubectl";
import { podLink } from "../router";
import { count, plural } from "../ui/format";
import { Command } from "../ui/command";
import { Icon } from "../ui/icon";
import { Loading, Shown } from "../ui/states";
import "../styles/remedies.css";

const FIRST = 3;
const NODES_NAMED = 4;
const AFFECTED_NAMED = 6;

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

interface RemediesProps {
  /** The pod, `namespace/name`; empty for a manifest. */
  pod: string;
  remedies: ShortRemedy[];
  most?: number;
}

export function Remedies({ pod, remedies, most }: RemediesProps) {
  const known = useResource<{ owner: string }>(
    pod ? `api/v1/pod?pod=${encodeURIComponent(pod)}` : null,
  );
  const owner = known.data?.owner ?? "";
  // What to type depends on who made the pod.
  if (known.loading) return <Loading lines={3} />;
  return (
    <ol class="remedies">
      {remedies.slice(0, most ?? remedies.length).map((remedy, at) => (
        <RemedyItem key={remedy.summary} remedy={remedy} owner={owner} first={at === 0} />
      ))}
    </ol>
  );
}

function RemedyItem({
  remedy,
  owner,
  first,
}: {
  remedy: ShortRemedy;
  owner: string;
  first: boolean;
}) {
  const [open, setOpen] = useState(first);
  const named = remedy.first.slice(0, NODES_NAMED).join(", ");
  const more = remedy.opens - NODES_NAMED;
  // That the template makes the next pod as before is not so where the template is changed.
  const own = followsTemplate(owner) ? `${owner.replace("/", " ")}:` : " ";
  const affects = remedy.affects.filter((each) => !each.startsWith(own));
  return (
    <li class="remedy">
      <button type="button" class="remedy-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="chevron" small />
        <span class="grow">{capital(remedy.summary)}</span>
        <LetsIn remedy={remedy} />
        {remedy.opens > 0 && <span class="badge good">opens {plural(remedy.opens, "node")}</span>}
      </button>
      {open && (
        <div class="remedy-body">
          {remedy.changes.length > 0 && (
            <Command text={remedy.changes.map((change) => commandOf(change, owner)).join("\n")} />
          )}
          <p class="small quiet">
            {remedy.opens > 0 && (
              <>
                Then fits on <span class="mono">{named}</span>
                {more > 0 && ` and ${count(more)} more`}.
              </>
            )}
            {affects.length > 0 && ` Also concerns ${affects.slice(0, AFFECTED_NAMED).join("; ")}`}
            {affects.length > AFFECTED_NAMED &&
              ` and ${count(affects.length - AFFECTED_NAMED)} more`}
            {affects.length > 0 && "."}
          </p>
          <Note remedy={remedy} owner={owner} />
        </div>
      )}
    </li>
  );
}

/** How many of the replicas that are asked about a remedy lets in. */
function LetsIn({ remedy }: { remedy: ShortRemedy }) {
  if (!remedy.replicas) return null;
  const { asked, fit } = remedy.replicas;
  return (
    <span class={`badge ${fit < asked ? "warn" : "good"}`}>
      {fit < asked ? `${count(fit)} of ${count(asked)} fit together` : `all ${count(asked)} fit`}
    </span>
  );
}

/** What Kubernetes makes of a change of a pod. */
function Note({ remedy, owner }: { remedy: ShortRemedy; owner: string }) {
  const ofPod = remedy.changes.some((change) => change.op === "patch" && change.kind === "Pod");
  if (ofPod && followsTemplate(owner))
    return (
      <p class="small quieter">
        The pod belongs to <span class="mono">{owner}</span>: this changes its template, and its
        pods are replaced.
      </p>
    );
  if (!remedy.changes.some(needsNewPod)) return null;
  return (
    <p class="small quieter">
      Kubernetes does not let this be changed on a pod that exists: this deletes it and creates it
      again, changed. {owner && `It belongs to ${owner}: change that as well.`}
    </p>
  );
}

/** The first remedies for a pod, read when they are looked at. */
export function FirstRemedies({ pod }: { pod: string }) {
  const found = useExplained(pod, 0);
  return (
    <Shown of={found} lines={3}>
      {({ summary, matrix }) => (
        <div class="stack tight">
          {summary.remedies.length ? (
            <Remedies pod={pod} remedies={summary.remedies} most={FIRST} />
          ) : (
            <p class="quiet">
              {matrix.fits
                ? `It would fit on ${plural(matrix.fits, "node")} now.`
                : "No small change was found that would let it run."}
            </p>
          )}
          <a class="row small" href={podLink(pod)}>
            Every node and every reason, for {pod} <Icon name="arrow" small />
          </a>
        </div>
      )}
    </Shown>
  );
}
