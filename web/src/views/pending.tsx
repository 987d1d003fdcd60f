/** Pods that wait, by the reason for which they do; what would help is one step away. */

import { useMemo, useState } from "preact/hooks";

import { useResource } from "../api/resource";
import type { PendingGroup, QueueAnswer, QueueEntry } from "../api/types";
import { headline, verdictOf, withoutNames } from "../reasons";
import { place, podLink, setQuery } from "../router";
import { count, plural, span } from "../ui/format";
import { Icon } from "../ui/icon";
import { Name } from "../ui/name";
import { Shown, State, StateBadge, stateWord } from "../ui/states";
import { type Column, Search, Table } from "../ui/table";
import { FirstRemedies } from "./remedies";
import "../styles/pending.css";

const EVERY_MS = 3000;
const MOST_GROUPS = 1000;
/** How many reasons are shown before the reader wants more. */
const CAUSES_AT_ONCE = 50;
const MOST_PODS = 5000;

/** Groups of pods that wait for the same reason. */
interface Cause {
  key: string;
  title: string;
  plugins: string[];
  groups: PendingGroup[];
  pods: number;
  oldest: number;
  tiers: Set<string>;
}

function causesOf(groups: PendingGroup[]): Cause[] {
  const found = new Map<string, Cause>();
  for (const group of groups) {
    const title = headline(group.message);
    const common = withoutNames(title);
    const key = `${common}|${group.plugins.join()}`;
    const cause = found.get(key) ?? {
      key,
      title,
      plugins: group.plugins,
      groups: [],
      pods: 0,
      oldest: 0,
      tiers: new Set<string>(),
    };
    if (cause.title !== title) cause.title = common;
    cause.groups.push(group);
    cause.pods += group.count;
    cause.oldest = Math.max(cause.oldest, group.oldestSeconds);
    cause.tiers.add(group.tier);
    found.set(key, cause);
  }
  return [...found.values()].sort((a, b) => b.pods - a.pods);
}

export function Pending() {
  const { query } = place.value;
  const tier = query.get("tier") ?? "";
  const listed = query.get("view") === "pods";
  const filter = query.get("filter") ?? "";
  const parameters = new URLSearchParams();
  if (tier) parameters.set("tier", tier);
  if (listed) parameters.set("limit", String(MOST_PODS));
  else {
    parameters.set("group", "true");
    parameters.set("limit", String(MOST_GROUPS));
  }
  const queue = useResource<QueueAnswer>(`api/v1/queue?${parameters}`, {
    every: EVERY_MS,
    keep: true,
  });
  const all = useResource<QueueAnswer>(tier ? "api/v1/queue?limit=1" : null, {
    every: EVERY_MS,
    keep: true,
  });
  const known = (tier ? all.data : queue.data)?.counts;
  const counts = known ?? {};
  const total = Object.values(counts).reduce((sum, each) => sum + each, 0);
  /** How many pods are asked for: those of one tier, or all. */
  const asked = tier ? (counts[tier] ?? 0) : total;

  return (
    <div class="view">
      <div class="view-head">
        <div>
          <h1>Pending pods</h1>
          <p>
            {total
              ? `${plural(total, "pod")} ${total === 1 ? "waits" : "wait"}${listed ? "" : ", grouped by the reason"}.`
              : "Pods that wait, and why."}
          </p>
        </div>
        <div class="segments" role="group" aria-label="Show">
          <Segment on={!listed} set={() => setQuery({ view: null })} label="By reason" />
          <Segment on={listed} set={() => setQuery({ view: "pods" })} label="All pods" />
        </div>
      </div>
      <div class="toolbar">
        <div class="segments grow" role="group" aria-label="Tier">
          <Segment
            on={!tier}
            set={() => setQuery({ tier: null })}
            label="All"
            {...(known ? { number: total } : {})}
          />
          {Object.entries(counts)
            .filter(([name, number]) => number > 0 || name === tier)
            .map(([name, number]) => (
              <Segment
                key={name}
                on={tier === name}
                set={() => setQuery({ tier: tier === name ? null : name })}
                label={stateWord(name)}
                number={number}
              />
            ))}
        </div>
        <Search
          value={filter}
          label="Filter by name, reason, plugin"
          onInput={(text) => setQuery({ filter: text })}
        />
      </div>
      <Shown of={queue} lines={9}>
        {(data) =>
          listed || !data.groups ? (
            <PodList pods={data.pods} filter={filter} total={asked} />
          ) : (
            <Causes groups={data.groups} filter={filter} total={asked} />
          )
        }
      </Shown>
    </div>
  );
}

function Segment(props: { on: boolean; set: () => void; label: string; number?: number }) {
  return (
    <button type="button" aria-pressed={props.on} onClick={props.set}>
      {props.label}
      {props.number !== undefined && <span class="number">{count(props.number)}</span>}
    </button>
  );
}

interface CausesProps {
  groups: PendingGroup[];
  filter: string;
  /** How many pods wait; the groups may be the largest of many. */
  total: number;
}

function Causes({ groups, filter, total }: CausesProps) {
  const wanted = filter.toLowerCase();
  const matches = ({ namespace, owner, message, pods, plugins }: PendingGroup): boolean =>
    [namespace, owner, message, ...pods, ...plugins].join(" ").toLowerCase().includes(wanted);
  const shown = useMemo(() => causesOf(wanted ? groups.filter(matches) : groups), [groups, wanted]);
  const [most, setMost] = useState(CAUSES_AT_ONCE);
  if (!groups.length)
    return (
      <div class="card">
        <State icon="check" title="No pod waits" tone="good">
          <p>All pods of this scheduler have a node.</p>
        </State>
      </div>
    );
  const read = groups.reduce((sum, group) => sum + group.count, 0);
  const rest = groups.length >= MOST_GROUPS && read < total && (
    <p class="small quieter">
      These are the {count(groups.length)} largest groups of equal pods, with {count(read)} of{" "}
      {plural(total, "pod")}; a tier shows others.
    </p>
  );
  if (!shown.length)
    return (
      <div class="card">
        <State icon="search" title={`Nothing matches “${filter}”`}>
          {rest}
        </State>
      </div>
    );
  const digits = Math.max(...shown.map((cause) => count(cause.pods).length));
  return (
    <>
      <ul class="causes" style={{ "--digits": digits }}>
        {shown.slice(0, most).map((cause) => (
          <CauseCard key={cause.key} cause={cause} alone={shown.length === 1} />
        ))}
      </ul>
      {shown.length > most && (
        <div class="row wrap">
          <button type="button" class="button" onClick={() => setMost(most + CAUSES_AT_ONCE)}>
            Show more
          </button>
          <span class="small quieter">
            {count(most)} of {plural(shown.length, "reason")} are shown, those of most pods first.
          </span>
        </div>
      )}
      {rest}
    </>
  );
}

function CauseCard({ cause, alone }: { cause: Cause; alone: boolean }) {
  const [open, setOpen] = useState(alone);
  const [chosen, setChosen] = useState("");
  const sample = cause.groups.find((group) => idOf(group) === chosen) ?? cause.groups[0];
  const body = `cause-${cause.key.replace(/\W+/g, "-")}`;
  return (
    <li class={open ? "card cause open" : "card cause"}>
      <h2 class="cause-heading">
        <button
          type="button"
          class="cause-head"
          aria-expanded={open}
          aria-controls={body}
          onClick={() => setOpen(!open)}
        >
          <span class="cause-count">
            <strong class="number">{count(cause.pods)}</strong>
            <span>{cause.pods === 1 ? "pod" : "pods"}</span>
          </span>
          <span class="cause-what">
            <span class="cause-title">{cause.title}</span>
            <span class="row wrap">
              {[...cause.tiers].map((tier) => (
                <StateBadge key={tier} state={tier} />
              ))}
              {cause.plugins.map((plugin) => (
                <span class="tag" key={plugin}>
                  {plugin}
                </span>
              ))}
            </span>
          </span>
          <span class="cause-when">
            <span class="quieter small">oldest</span>
            <span class="number">{span(cause.oldest)}</span>
          </span>
          <Icon name="chevron" />
        </button>
      </h2>
      {open && (
        <div class="cause-body" id={body}>
          {sample && <Breakdown message={sample.message} />}
          <div class="cause-columns">
            <section aria-label="What would help">
              <h3>
                <Icon name="wrench" small /> What would let {nameOf(sample)} run
              </h3>
              {sample?.pods[0] && <FirstRemedies key={sample.pods[0]} pod={sample.pods[0]} />}
            </section>
            <section aria-label="Pods">
              <h3>
                <Icon name="pods" small /> Who waits
              </h3>
              <ul class="waiters">
                {cause.groups.slice(0, 50).map((group) => (
                  <Waiter
                    key={idOf(group)}
                    group={group}
                    chosen={group === sample}
                    choose={cause.groups.length > 1 ? () => setChosen(idOf(group)) : null}
                  />
                ))}
              </ul>
              {cause.groups.length > 50 && (
                <p class="small quieter">
                  and {count(cause.groups.length - 50)} more groups of equal pods
                </p>
              )}
            </section>
          </div>
        </div>
      )}
    </li>
  );
}

/** How many nodes each reason rules out. */
function Breakdown({ message }: { message: string }) {
  const verdict = verdictOf(message);
  if (!verdict.reasons.length) return null;
  return (
    <ul class="breakdown" aria-label={`Why none of ${verdict.total} nodes fits`}>
      {verdict.reasons.map((reason) => (
        <li key={reason.text}>
          <span class="breakdown-text">{reason.text}</span>
          <span class="bar" aria-hidden="true">
            <i
              style={{ width: `${verdict.total ? (100 * reason.nodes) / verdict.total : 100}%` }}
            />
          </span>
          <span class="number quiet small">
            {count(reason.nodes)} of {plural(verdict.total, "node")}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** The same for a group while its pods come and go. */
function idOf(group: PendingGroup): string {
  return `${group.namespace}/${group.owner || group.pods[0]}/${group.tier}`;
}

function nameOf(group: PendingGroup | undefined): string {
  if (!group) return "them";
  return group.owner.split("/")[1] ?? group.pods[0]?.split("/")[1] ?? "them";
}

interface WaiterProps {
  group: PendingGroup;
  chosen: boolean;
  /** Has its remedies shown; null where there is no choice. */
  choose: (() => void) | null;
}

function Waiter({ group, chosen, choose }: WaiterProps) {
  const more = group.count - group.pods.length;
  return (
    <li class={chosen && choose ? "chosen" : ""}>
      <span class="cut waiter-name">
        <span class="quieter">{group.namespace}/</span>
        {nameOf(group)} <span class="quieter small">{group.owner.split("/")[0]}</span>
      </span>
      <span class="quiet small number">
        {plural(group.count, "pod")} · {plural(group.attempts, "attempt")}
        {group.retrySeconds !== null && ` · again in ${span(group.retrySeconds)}`}
      </span>
      <div class="row wrap small">
        {group.pods.map((pod) => (
          <a key={pod} href={podLink(pod)}>
            {pod.split("/")[1]}
          </a>
        ))}
        {more > 0 && <span class="quieter">and {count(more)} more</span>}
        {choose && !chosen && (
          <button type="button" class="button plain small waiter-choose" onClick={choose}>
            <Icon name="wrench" small /> What would help
          </button>
        )}
      </div>
    </li>
  );
}

const COLUMNS: Column<QueueEntry>[] = [
  {
    name: "pod",
    title: "Pod",
    width: "minmax(9rem, 1.2fr)",
    by: (row) => row.pod,
    cell: (row) => <Name of={row.pod} />,
  },
  {
    name: "tier",
    title: "State",
    width: "11.5rem",
    from: 560,
    by: (row) => row.tier,
    cell: (row) => <StateBadge state={row.tier} />,
  },
  {
    name: "why",
    title: "Why",
    width: "minmax(9rem, 2fr)",
    from: 680,
    by: (row) => headline(row.message),
    cell: (row) => <span title={row.message}>{headline(row.message)}</span>,
  },
  {
    name: "attempts",
    title: "Attempts",
    width: "5.5rem",
    end: true,
    from: 900,
    by: (row) => row.attempts,
    cell: (row) => <span class="number">{count(row.attempts)}</span>,
  },
  {
    name: "waiting",
    title: "Waits",
    width: "6.5rem",
    end: true,
    by: (row) => row.waitingSeconds,
    cell: (row) => <span class="number">{span(row.waitingSeconds)}</span>,
  },
];

interface PodListProps {
  pods: QueueEntry[];
  filter: string;
  /** How many wait; the pods may be the first of many. */
  total: number;
}

function PodList({ pods, filter, total }: PodListProps) {
  const wanted = filter.toLowerCase();
  const shown = useMemo(
    () =>
      wanted
        ? pods.filter((pod) =>
            `${pod.pod} ${pod.message} ${pod.plugins.join(" ")}`.toLowerCase().includes(wanted),
          )
        : pods,
    [pods, wanted],
  );
  return (
    <div class="card">
      <Table
        label="Pending pods"
        columns={COLUMNS}
        rows={shown}
        id={(row) => row.pod}
        href={(row) => podLink(row.pod)}
        empty={
          pods.length ? (
            <State icon="search" title={`Nothing matches “${filter}”`} />
          ) : (
            <State icon="check" title="No pod waits" tone="good" />
          )
        }
      />
      {pods.length >= MOST_PODS && pods.length < total && (
        <p class="card-body small quieter">
          {wanted ? "Looked for among" : "These are"} the first {count(pods.length)} of{" "}
          {plural(total, "pod")}; a tier shows others.
        </p>
      )}
    </div>
  );
}
