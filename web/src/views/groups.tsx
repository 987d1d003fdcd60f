/** Gangs and how far they are, and how the last backlogs were placed. */

import { useMemo } from "preact/hooks";

import { useResource } from "../api/resource";
import type { Batch, Gang, GroupsAnswer } from "../api/view_types";
import { headline } from "../reasons";
import { link, place, setQuery } from "../router";
import { count, millis, plural, span } from "../ui/format";
import { Name } from "../ui/name";
import { Shown, State } from "../ui/states";
import { type Column, Search, Table } from "../ui/table";
import "../styles/groups.css";

const EVERY_MS = 3000;
const MOST = 2000;

export function Groups() {
  const loaded = useResource<GroupsAnswer>(`/api/v1/groups?limit=${MOST}`, { every: EVERY_MS });
  const { query } = place.value;
  const batches = query.get("show") === "batches";
  const filter = query.get("filter") ?? "";
  return (
    <div class="view">
      <header class="view-head">
        <div>
          <h1>Gangs and batches</h1>
          <p>
            {batches
              ? "How the last backlogs were placed, all pods of a priority at once."
              : "Pods of a gang are placed together, or not at all."}
          </p>
        </div>
        {!batches && (
          <Search
            value={filter}
            label="Filter gangs"
            onInput={(text) => setQuery({ filter: text || null })}
          />
        )}
      </header>
      <Shown of={loaded}>
        {(answer) => (
          <>
            <div class="segments" role="group" aria-label="Show">
              <button
                type="button"
                aria-pressed={!batches}
                onClick={() => setQuery({ show: null })}
              >
                Gangs <span class="number">{count(answer.count)}</span>
              </button>
              <button
                type="button"
                aria-pressed={batches}
                onClick={() => setQuery({ show: "batches" })}
              >
                Batches <span class="number">{count(answer.batches.length)}</span>
              </button>
            </div>
            <section class="card">
              {batches ? <Batches answer={answer} /> : <Gangs answer={answer} filter={filter} />}
            </section>
          </>
        )}
      </Shown>
    </div>
  );
}

const PHASES: Record<string, string> = {
  Pending: "warn",
  Scheduling: "bad",
  Scheduled: "info",
  Running: "good",
  Finished: "",
  Failed: "bad",
};

function Gangs({ answer, filter }: { answer: GroupsAnswer; filter: string }) {
  const rows = useMemo(() => {
    const wanted = filter.toLowerCase();
    return answer.groups.filter((each) =>
      `${each.name} ${each.phase} ${each.message}`.toLowerCase().includes(wanted),
    );
  }, [answer.groups, filter]);
  if (!answer.enabled) {
    return (
      <State icon="groups" title="No profile places gangs">
        <p>
          Enable the plugin <code>Coscheduling</code> in a profile to place PodGroups together.
        </p>
      </State>
    );
  }
  return (
    <Table
      label="Gangs, those that are not placed first"
      columns={GANG_COLUMNS}
      rows={rows}
      id={(row) => row.name}
      href={(row) => {
        const filter = encodeURIComponent(row.name.split("/")[1] ?? row.name);
        return row.message
          ? `${link("pending")}?view=pods&filter=${filter}`
          : `${link("decisions")}?filter=${filter}`;
      }}
      rowHeight={52}
      empty={
        <State icon="groups" title={filter ? "No gang is so" : "There are no gangs"}>
          <p>{filter ? "Another filter shows others." : "They appear with the first PodGroup."}</p>
        </State>
      }
    />
  );
}

function Members({ gang }: { gang: Gang }) {
  const wanted = Math.max(gang.minMember ?? 0, gang.existing, 1);
  const placed = Math.min(gang.placed, wanted);
  const waits = Math.max(0, Math.min(gang.existing, wanted) - placed);
  const words =
    `${gang.placed} placed, ${gang.existing} exist` +
    (gang.minMember === null ? "" : `, at least ${gang.minMember} needed`);
  return (
    <span class="gang-members" title={words}>
      <span class="gang-bar" role="img" aria-label={words}>
        <i class="placed" style={{ width: `${(100 * placed) / wanted}%` }} />
        <i class="waits" style={{ width: `${(100 * waits) / wanted}%` }} />
        {gang.minMember !== null && gang.minMember < wanted && (
          <b style={{ left: `${(100 * gang.minMember) / wanted}%` }} />
        )}
      </span>
      <span class="number small quiet">
        {count(gang.placed)} of {gang.minMember === null ? "?" : count(gang.minMember)}
      </span>
    </span>
  );
}

function why(gang: Gang): string {
  return gang.message && headline(gang.message).replace(/^Gang: /, "");
}

const GANG_COLUMNS: Column<Gang>[] = [
  {
    name: "name",
    title: "Gang",
    width: "minmax(0, 1.4fr)",
    by: (row) => row.name,
    cell: (row) => (
      <span class="gang-name">
        <Name of={row.name} />
        {row.message && <span class="gang-reason small quieter cut">{why(row)}</span>}
        <span class="gang-counts small quieter">
          {count(row.placed)} of {row.minMember === null ? "?" : count(row.minMember)} placed,{" "}
          {plural(row.existing, "member")}
        </span>
      </span>
    ),
  },
  {
    name: "phase",
    title: "Phase",
    width: "6.5rem",
    by: (row) => row.phase,
    cell: (row) => (
      <span class={`badge ${PHASES[row.phase] ?? ""}`}>{row.phase || "No PodGroup"}</span>
    ),
  },
  {
    name: "placed",
    title: "Placed, of minMember",
    width: "minmax(9rem, 1fr)",
    from: 560,
    by: (row) => row.placed / Math.max(1, row.minMember ?? 1),
    cell: (row) => <Members gang={row} />,
  },
  {
    name: "message",
    title: "Why it waits",
    width: "minmax(0, 2.2fr)",
    from: 860,
    cell: (row) => (
      <span class="gang-why quiet" title={row.message}>
        {why(row)}
      </span>
    ),
  },
];

const RESULTS: Record<Batch["result"], { word: string; tone: string; why: string }> = {
  solved: { word: "At once", tone: "good", why: "the solver's placement was the better one" },
  uncontended: {
    word: "No contention",
    tone: "",
    why: "each pod could have the node it likes best",
  },
  greedy: { word: "One by one", tone: "info", why: "one by one was as good" },
  nowhere: { word: "Nowhere", tone: "bad", why: "no pod fits anywhere" },
  failed: { word: "Failed", tone: "bad", why: "the solver failed; pods were placed one by one" },
};

function Batches({ answer }: { answer: GroupsAnswer }) {
  if (!answer.batching) {
    return (
      <State icon="groups" title="Backlogs are placed one by one">
        <p>
          Set <code>batch.enabled: true</code> to place many waiting pods at once where they contend
          for nodes.
        </p>
      </State>
    );
  }
  return (
    <Table
      label="Batches, newest first"
      columns={BATCH_COLUMNS}
      rows={answer.batches}
      id={(row) => [row.priority, row.pods, row.poseSeconds, row.solveSeconds].join()}
      empty={
        <State icon="groups" title="There was no backlog yet">
          <p>Batches appear when enough pods wait at a time.</p>
        </State>
      }
    />
  );
}

const BATCH_COLUMNS: Column<Batch>[] = [
  {
    name: "result",
    title: "Placed",
    width: "minmax(7.25rem, 1fr)",
    by: (row) => row.result,
    cell: (row) => (
      <span class={`badge ${RESULTS[row.result].tone}`} title={RESULTS[row.result].why}>
        {RESULTS[row.result].word}
      </span>
    ),
  },
  {
    name: "pods",
    title: "Pods",
    width: "4rem",
    end: true,
    by: (row) => row.pods,
    cell: (row) => <span class="number">{count(row.pods)}</span>,
  },
  {
    name: "placed",
    title: "At once",
    width: "5.5rem",
    end: true,
    from: 500,
    by: (row) => row.placed,
    cell: (row) => <span class="number">{count(row.placed)}</span>,
  },
  {
    name: "later",
    title: "One by one",
    width: "6rem",
    end: true,
    from: 660,
    by: (row) => row.placedOneByOne,
    cell: (row) => <span class="number">{count(row.placedOneByOne)}</span>,
  },
  {
    name: "pending",
    title: "Left",
    width: "4.5rem",
    end: true,
    from: 580,
    by: (row) => row.pending,
    cell: (row) => <span class="number">{count(row.pending)}</span>,
  },
  {
    name: "size",
    title: "Classes × nodes",
    width: "9rem",
    end: true,
    from: 900,
    by: (row) => row.arcs,
    cell: (row) => (
      <span class="number" title={plural(row.arcs, "arc")}>
        {count(row.classes)} × {count(row.nodes)}
      </span>
    ),
  },
  {
    name: "took",
    title: "Solved in",
    width: "6rem",
    end: true,
    from: 780,
    by: (row) => row.poseSeconds + row.solveSeconds,
    cell: (row) => (
      <span class="number">{millis(1000 * (row.poseSeconds + row.solveSeconds))}</span>
    ),
  },
  {
    name: "ago",
    title: "Ago",
    width: "5.5rem",
    end: true,
    by: (row) => row.secondsAgo,
    cell: (row) => <span class="number">{span(row.secondsAgo)}</span>,
  },
];
