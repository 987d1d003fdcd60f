/** How the scheduler does: throughput, latency, who waits and what fails most. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { useResource } from "../api/resource";
import { streaming, useReopened, useStream } from "../api/stream";
import type { DecisionsAnswer, Sample } from "../api/view_types";
import type { Decision, Overview as Answer, Series } from "../api/types";
import { merged } from "../decisions";
import { tidied } from "../reasons";
import { link, podLink } from "../router";
import { Chart, type Line } from "../ui/chart";
import { count, millis, moment, plural, rate } from "../ui/format";
import { Icon } from "../ui/icon";
import { Shown, State, stateWord } from "../ui/states";
import "../styles/overview.css";

const EVERY_MS = 10_000;
const MOST_SAMPLES = 900;
const LATEST = 11;
const FAILING = 8;

/** The tiers of the queue, in the order of the stack; colours that differ in lightness too. */
const TIERS: [string, string][] = [
  ["unschedulable", "--series-6"],
  ["error-backoff", "--series-4"],
  ["backoff", "--series-2"],
  ["gated", "--series-7"],
  ["waiting-on-permit", "--series-5"],
  ["in-flight", "--series-3"],
  ["active", "--series-1"],
];

/** A series with one more sample; samples that it has already are left out. */
function extended(series: Series, sample: Sample): Series {
  if ((series.time.at(-1) ?? 0) >= sample.time) return series;
  const more = <T,>(values: T[], value: T): T[] => [...values.slice(-MOST_SAMPLES + 1), value];
  const tiers = Object.entries(series.tiers).map(([tier, values]) => [
    tier,
    more(values, sample.tiers[tier] ?? 0),
  ]);
  return {
    time: more(series.time, sample.time),
    bound: more(series.bound, sample.bound),
    attempts: more(series.attempts, sample.attempts),
    p50: more(series.p50, sample.p50),
    p99: more(series.p99, sample.p99),
    tiers: Object.fromEntries(tiers) as Series["tiers"],
  };
}

export function Overview() {
  const found = useResource<Answer>("api/v1/overview", { every: EVERY_MS });
  const [series, setSeries] = useState<Series | null>(null);
  const known = useResource<DecisionsAnswer>(`api/v1/decisions?limit=${LATEST}`);
  const [latest, setLatest] = useState<Decision[]>([]);
  const [tiers, setTiers] = useState<Record<string, number> | null>(null);
  const add = (more: Decision[]): void =>
    setLatest((before) => merged(before, more).slice(0, LATEST));
  useStream({
    overview: (sample) => {
      setSeries((before) => before && extended(before, sample));
      setTiers(sample.tiers);
    },
    decisions: add,
  });
  useReopened(() => {
    found.reload();
    known.reload();
  });

  useEffect(() => {
    if (!found.data) return;
    setSeries(found.data.series);
    setTiers(found.data.tiers);
  }, [found.data]);
  useEffect(() => {
    if (known.data) add(known.data.decisions);
  }, [known.data]);

  return (
    <div class="view">
      <div class="view-head">
        <div>
          <h1>Overview</h1>
          <p>{found.data ? said(found.data) : "How the scheduler does."}</p>
        </div>
        {found.data && <Live />}
      </div>
      <Shown of={found} lines={12}>
        {(data) => (
          <Dashboard
            data={data}
            series={series ?? data.series}
            tiers={tiers ?? data.tiers}
            latest={latest}
          />
        )}
      </Shown>
    </div>
  );
}

function said(data: Answer): string {
  const profiles = data.profiles.length === 1 ? "profile" : "profiles";
  return `Equipoise ${data.version}, ${profiles} ${data.profiles.join(", ")}`;
}

function Live() {
  const words = { open: "Live", off: "Connecting", waiting: "Not live: read every 10 s" };
  const tones = { open: "good", off: "", waiting: "warn" };
  const state = streaming.value;
  return (
    <span class={`badge ${tones[state]}`} role="status">
      <i class={`dot ${tones[state]}`} aria-hidden="true" /> {words[state]}
    </span>
  );
}

interface DashboardProps {
  data: Answer;
  series: Series;
  tiers: Record<string, number>;
  latest: Decision[];
}

function Dashboard({ data, series, tiers, latest }: DashboardProps) {
  const waiting = Object.values(tiers).reduce((sum, each) => sum + each, 0);
  const unschedulable = tiers["unschedulable"] ?? 0;
  return (
    <>
      <dl class="tiles five">
        <Tile
          term="Bound per second"
          said={rate(series.bound.at(-1))}
          more={`${rate(peak(series.bound))} at most`}
        />
        <Tile
          term="Time to a decision"
          said={millis(lastOf(series.p50))}
          more={`99 % within ${millis(lastOf(series.p99))}`}
        />
        <Tile
          term="Pending pods"
          said={count(waiting)}
          more={unschedulable ? `${count(unschedulable)} unschedulable` : "none unschedulable"}
          href={link("pending")}
          warn={unschedulable > 0}
        />
        <Tile
          term="Bound pods"
          said={count(data.pods.bound)}
          more={`on ${plural(data.nodes, "node")}`}
        />
        <Tile
          term="Delay of the loop"
          said={millis(data.loopLagMs)}
          more={data.leader ? "this replica leads" : "this replica is a standby"}
        />
      </dl>
      <div class="charts">
        <Panel title="Throughput" about="pods per second">
          <Chart
            label="Pods bound and attempts per second, over time"
            time={series.time}
            lines={[
              { label: "Attempts", colour: "--series-2", values: series.attempts, dashed: true },
              { label: "Bound", colour: "--series-1", values: series.bound, filled: true },
            ]}
            format={rate}
            ticks={(value) => (Number.isInteger(value) ? count(value) : value.toFixed(1))}
          />
        </Panel>
        <Panel title="Latency" about="queue to decision">
          <Chart
            label="Time from the queue to the decision, over time"
            time={series.time}
            lines={[
              { label: "99 % within", colour: "--series-6", values: series.p99 },
              { label: "Median", colour: "--series-1", values: series.p50, filled: true },
            ]}
            format={millis}
            ticks={(value) => (value >= 1000 ? `${value / 1000} s` : `${value} ms`)}
            logarithmic
          />
        </Panel>
        <Panel title="Queue" about="pods in each tier">
          <Chart
            label="Pods in each tier of the queue, over time"
            time={series.time}
            lines={tierLines(series)}
            format={(value) => (value === null || value === undefined ? "–" : count(value))}
            ticks={count}
            least={4}
            stacked
          />
        </Panel>
      </div>
      <div class="halves">
        <Failing data={data} waiting={waiting} />
        <Latest decisions={latest} />
      </div>
    </>
  );
}

function lastOf(values: (number | null)[]): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

function peak(values: (number | null)[]): number {
  return values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
}

function tierLines(series: Series): Line[] {
  const shown = TIERS.filter(([tier]) => {
    const values = series.tiers[tier];
    return (
      values && (tier === "active" || tier === "unschedulable" || values.some((value) => value))
    );
  });
  return shown.map(([tier, colour]) => ({
    label: stateWord(tier),
    colour,
    values: series.tiers[tier] ?? [],
  }));
}

function Tile(props: { term: string; said: string; more: string; href?: string; warn?: boolean }) {
  return (
    <div class="card tile">
      <dt>{props.href ? <a href={props.href}>{props.term}</a> : props.term}</dt>
      <dd class="tile-said number">{props.said}</dd>
      <dd class={props.warn ? "tile-more warn" : "tile-more"}>{props.more}</dd>
    </div>
  );
}

function Panel({
  title,
  about,
  children,
}: {
  title: string;
  about: string;
  children: ComponentChildren;
}) {
  return (
    <section class="card">
      <div class="card-head">
        <h2>{title}</h2>
        <p>{about}</p>
      </div>
      <div class="card-body">{children}</div>
    </section>
  );
}

function Failing({ data, waiting }: { data: Answer; waiting: number }) {
  const most = Math.max(1, ...data.failing.map((each) => each.pods));
  return (
    <section class="card" aria-labelledby="failing-title">
      <div class="card-head">
        <h2 id="failing-title">What fails most</h2>
        <p>{data.failing.length ? `reasons of ${plural(waiting, "pending pod")}` : ""}</p>
      </div>
      {data.failing.length ? (
        <ol class="failing">
          {data.failing.slice(0, FAILING).map((each) => (
            <li key={`${each.plugin} ${each.reason}`}>
              <a href={`${link("pending")}?filter=${encodeURIComponent(each.reason)}`}>
                <span class="failing-text">{tidied(each.reason)}</span>
                <span class="quieter small">{each.plugin}</span>
                <span class="bar" aria-hidden="true">
                  <i style={{ width: `${(100 * each.pods) / most}%` }} />
                </span>
                <span class="number failing-count">{plural(each.pods, "pod")}</span>
              </a>
            </li>
          ))}
        </ol>
      ) : (
        <State icon="check" title="Nothing fails" tone="good">
          <p>No plugin rejects a pending pod.</p>
        </State>
      )}
    </section>
  );
}

function Latest({ decisions }: { decisions: Decision[] }) {
  return (
    <section class="card" aria-labelledby="latest-title">
      <div class="card-head">
        <h2 id="latest-title">Latest decisions</h2>
        <a class="row small" href={link("decisions")}>
          All <Icon name="arrow" small />
        </a>
      </div>
      {decisions.length ? (
        <ol class="latest">
          {decisions.map((decision) => (
            <li key={decision.seq}>
              <i
                class={`dot ${decision.result === "scheduled" ? "good" : "bad"}`}
                aria-hidden="true"
              />
              <a class="cut" href={podLink(decision.pod)}>
                {decision.pod.split("/")[1]}
              </a>
              <span class="cut quiet small">
                {decision.result === "scheduled" ? `on ${decision.node}` : decision.result}
              </span>
              <span class="number quieter small">{moment(decision.time)}</span>
            </li>
          ))}
        </ol>
      ) : (
        <State icon="decisions" title="Nothing was decided yet" />
      )}
    </section>
  );
}
