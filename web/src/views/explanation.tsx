/** The parts of an explanation: verdict, facts, remedies, state, comparison, history. */

import type { ComponentChildren } from "preact";

import type { Summary } from "../explain/matrix";
import type { Explained } from "../explain/reader";
import { headline } from "../reasons";
import { link, podLink } from "../router";
import { count, moment, plural, span } from "../ui/format";
import { Icon, type IconName } from "../ui/icon";
import { stateWord } from "../ui/states";
import { MatrixCard } from "./matrix";
import { Remedies } from "./remedies";
import "../styles/explanation.css";

function Card({
  title,
  icon,
  children,
}: {
  title: string;
  icon?: IconName;
  children: ComponentChildren;
}) {
  return (
    <section class="card">
      <div class="card-head">
        <h2 class="row">
          {icon && <Icon name={icon} />}
          {title}
        </h2>
      </div>
      <div class="card-body">{children}</div>
    </section>
  );
}

/** What it comes to, in one sentence. */
export function Verdict({ explained }: { explained: Explained }) {
  const { summary, matrix } = explained;
  const { tone, icon, title, text } = verdictOf(summary, matrix.fits, matrix.nodes.length);
  return (
    <section class={`card verdict ${tone}`} aria-label="Verdict">
      <Icon name={icon} />
      <div class="grow">
        <h2>{title}</h2>
        {text && <p class="quiet">{text}</p>}
      </div>
    </section>
  );
}

interface Said {
  tone: "good" | "warn" | "bad" | "hold";
  icon: IconName;
  title: ComponentChildren;
  text?: ComponentChildren;
}

function NodeName({ name }: { name: string }) {
  return (
    <a class="mono" href={link("nodes", name)}>
      {name}
    </a>
  );
}

function verdictOf(summary: Summary, fits: number, nodes: number): Said {
  const { standing } = summary;
  const held =
    standing.state === "gated" || standing.state === "group" || standing.state === "suspended";
  if (summary.boundTo)
    return {
      tone: "good",
      icon: "check",
      title: (
        <>
          Runs on <NodeName name={summary.boundTo} />
        </>
      ),
      text: `Judged again as if it were not there, ${
        fits ? `${plural(fits, "node")} of ${count(nodes)} fit` : "no node fits"
      } now.`,
    };
  if (standing.state === "permit" || standing.state === "binding")
    return {
      tone: "hold",
      icon: "pending",
      title: (
        <>
          {stateWord(standing.state)} on <NodeName name={standing.node ?? ""} />
        </>
      ),
      text: standing.message,
    };
  if (held)
    return {
      tone: "hold",
      icon: "lock",
      title: standing.message ? sentence(standing.message) : stateWord(standing.state),
      text: summary.wouldGoTo ? (
        <>
          If nothing held it, it would go to <NodeName name={summary.wouldGoTo} />:{" "}
          {plural(fits, "node")} of {count(nodes)} fit.
        </>
      ) : (
        `Of ${plural(nodes, "node")} none would fit either: ${headline(summary.message)}`
      ),
    };
  if (summary.node)
    return {
      tone: "good",
      icon: "arrow",
      title: (
        <>
          Goes to <NodeName name={summary.node} />
        </>
      ),
      text: `${plural(fits, "node")} of ${count(nodes)} fit.`,
    };
  return {
    tone: "bad",
    icon: "cross",
    title: nodes ? `No node of ${count(nodes)} fits` : "There are no nodes",
    text: headline(summary.message || standing.message),
  };
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function Facts({ summary, nodes, fits }: { summary: Summary; nodes: number; fits: number }) {
  if (!summary.facts.length) return null;
  return (
    <Card title={fits ? "What rules nodes out" : "Why"} icon="search">
      <ul class="facts">
        {summary.facts.map((fact) => (
          <li key={`${fact.plugin} ${fact.message}`}>
            <div class="stack tight">
              <span class="fact-text">{sentence(fact.message)}</span>
              <span class="tag">{fact.plugin}</span>
            </div>
            <div class="fact-share">
              <span class="number small quiet">
                rules out {count(fact.nodes ?? 0)} of {count(nodes)}
              </span>
              <span class="bar" aria-hidden="true">
                <i style={{ width: `${nodes ? (100 * (fact.nodes ?? 0)) / nodes : 0}%` }} />
              </span>
            </div>
          </li>
        ))}
      </ul>
    </Card>
  );
}

export function RemediesCard({
  summary,
  hypothetical,
  fits,
}: {
  summary: Summary;
  hypothetical: boolean;
  fits: number;
}) {
  if (!summary.remedies.length) return null;
  // One that fits may be one of several replicas, or a member of a gang, of which not all do.
  const title =
    fits && summary.replicas ? "What would let more of them run" : "What would let it run";
  return (
    <Card title={title} icon="wrench">
      <Remedies pod={hypothetical ? "" : summary.pod} remedies={summary.remedies} />
    </Card>
  );
}

export function StandingCard({ summary }: { summary: Summary }) {
  const { standing } = summary;
  const rows: [string, ComponentChildren][] = [["State", stateWord(standing.state)]];
  if (standing.since !== null) rows.push(["Since", moment(standing.since)]);
  if (standing.attempts) rows.push(["Attempts", count(standing.attempts)]);
  if (standing.lastTriedSeconds !== null)
    rows.push(["Last tried", `${span(standing.lastTriedSeconds)} ago`]);
  if (standing.retrySeconds !== null)
    rows.push(["Tried again", `in ${span(standing.retrySeconds)} at the latest`]);
  if (standing.behind)
    rows.push(["Behind its equal", <a href={podLink(standing.behind)}>{standing.behind}</a>]);
  if (summary.nominated) rows.push(["Nominated to", <NodeName name={summary.nominated} />]);
  for (const wait of standing.permit)
    rows.push([wait.plugin, `waits for ${span(wait.seconds)}, ${span(wait.timeoutSeconds)} left`]);
  return (
    <Card title="State" icon="pending">
      <dl class="pairs">
        {rows.map(([term, said]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{said}</dd>
          </div>
        ))}
      </dl>
      {standing.waitsFor.length > 0 && (
        <Listed title="Waits for" items={standing.waitsFor.map((each) => ({ text: each }))} />
      )}
      {standing.wakes.length > 0 && (
        <Listed
          title="Tried again when"
          items={standing.wakes.map((wake) => ({
            text: String(wake["message"] ?? ""),
            tag: wake.plugin,
          }))}
        />
      )}
    </Card>
  );
}

function Listed({ title, items }: { title: string; items: { text: string; tag?: string }[] }) {
  return (
    <div class="listed">
      <h3>{title}</h3>
      <ul class="fact-list">
        {items.map((item) => (
          <li key={`${item.tag}${item.text}`}>
            {sentence(item.text)} {item.tag && <span class="tag">{item.tag}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

export function PreemptionCard({ summary }: { summary: Summary }) {
  const { preemption } = summary;
  if (!preemption) return null;
  return (
    <Card title="Preemption">
      {preemption.node ? (
        <div class="stack tight">
          <p>
            Would evict {plural(preemption.victims.length, "pod")} on{" "}
            <NodeName name={preemption.node} />
            {preemption.violations > 0 &&
              `, ${count(preemption.violations)} against a disruption budget`}
            .
          </p>
          <ul class="row wrap small">
            {preemption.victims.map((victim) => (
              <li key={victim}>
                <a href={podLink(victim)}>{victim}</a>
              </li>
            ))}
          </ul>
        </div>
      ) : (
        <p class="quiet small">{headline(preemption.message.replace(/^preemption: /, ""))}</p>
      )}
    </Card>
  );
}

export function ComparisonCard({ summary }: { summary: Summary }) {
  const { comparison } = summary;
  if (!comparison?.runnerUp) return null;
  const most = Math.max(1, ...comparison.parts.map((part) => Math.abs(part.difference)));
  return (
    <Card title="Compared with the next best node">
      <div class="stack">
        <p>{sentence(comparison.message)}</p>
        <div class="compared" role="table" aria-label="Weighted scores of both nodes">
          <div role="row" class="compared-head">
            <span role="columnheader">Plugin</span>
            <span role="columnheader" class="mono">
              {comparison.node}
            </span>
            <span role="columnheader">Difference</span>
            <span role="columnheader" class="mono">
              {comparison.runnerUp}
            </span>
          </div>
          {comparison.parts.map((part) => (
            <div role="row" key={part.plugin}>
              <span role="cell">{part.plugin}</span>
              <span role="cell" class="number">
                {count(part.node)}
              </span>
              <span role="cell" class="lead" title={String(part.difference)}>
                <i
                  class={part.difference >= 0 ? "ahead" : "behind"}
                  style={{ width: `${(50 * Math.abs(part.difference)) / most}%` }}
                />
                <span class="hidden-label">{part.difference}</span>
              </span>
              <span role="cell" class="number">
                {count(part.runnerUp)}
              </span>
            </div>
          ))}
        </div>
      </div>
    </Card>
  );
}

export function HistoryCard({ summary }: { summary: Summary }) {
  if (!summary.history.length) return null;
  return (
    <Card title="Attempts" icon="decisions">
      <ol class="history">
        {[...summary.history].reverse().map((verdict) => (
          <li key={verdict.time}>
            <i class={verdict.node ? "dot good" : "dot bad"} aria-hidden="true" />
            <div>
              <span class="small quieter number">
                {moment(verdict.time)}
                {verdict.count > 1 && ` to ${moment(verdict.until)}, ${count(verdict.count)} times`}
              </span>
              <p class="small">
                {verdict.node ? (
                  <>
                    Bound to <NodeName name={verdict.node} />
                  </>
                ) : (
                  <span title={verdict.message}>{headline(verdict.message)}</span>
                )}
              </p>
            </div>
          </li>
        ))}
      </ol>
    </Card>
  );
}

export function GroupCard({ summary }: { summary: Summary }) {
  const { group } = summary;
  if (!group) return null;
  return (
    <Card title={`Pod group ${group.name}`} icon="groups">
      <div class="stack tight">
        <p class="row wrap">
          {group.phase && <span class="badge">{group.phase}</span>}
          <span class="quiet">
            {group.minMember !== null && `needs ${count(group.minMember)}, `}
            {count(group.existing)} exist, {count(group.placed)} placed, {count(group.waiting)} wait
            for permission
          </span>
        </p>
        {group.fault && <p>{sentence(group.fault)}</p>}
        <ul class="members">
          {group.members.slice(0, 64).map((member) => (
            <li key={member.pod}>
              <a class="cut" href={podLink(member.pod)}>
                {member.pod.split("/")[1]}
              </a>
              <span class="quiet small">{member.node ?? stateWord(member.state)}</span>
            </li>
          ))}
        </ul>
      </div>
    </Card>
  );
}

/** Everything that an explanation says, of a pod that exists or of a manifest. */
export function ExplanationBody({
  explained,
  hypothetical = false,
  extra,
}: {
  explained: Explained;
  /** Of a manifest: it has no past, and is in no state yet. */
  hypothetical?: boolean;
  extra?: ComponentChildren;
}) {
  const { summary, matrix } = explained;
  const chosen = summary.boundTo ?? summary.node ?? summary.wouldGoTo;
  const side = [
    !hypothetical && <StandingCard key="standing" summary={summary} />,
    <GroupCard key="group" summary={summary} />,
    <PreemptionCard key="preemption" summary={summary} />,
    !hypothetical && <HistoryCard key="history" summary={summary} />,
  ];
  return (
    <>
      <Verdict explained={explained} />
      {extra}
      <div class="explanation">
        <div class="stack">
          <Facts summary={summary} nodes={matrix.nodes.length} fits={matrix.fits} />
          <RemediesCard summary={summary} hypothetical={hypothetical} fits={matrix.fits} />
          <ComparisonCard summary={summary} />
        </div>
        <div class="stack">{side}</div>
      </div>
      <MatrixCard key={summary.pod} explained={explained} chosen={chosen} />
    </>
  );
}
