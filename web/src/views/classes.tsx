/** Classes of equal pods, and how many answers of plugins did not have to be computed. */

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";

import { useResource } from "../api/resource";
import type { ClassesAnswer, ClassPlugin, PluginHits, PodClass } from "../api/view_types";
import { link, place, setQuery } from "../router";
import { bytes, percent } from "../ui/amounts";
import { count, plural } from "../ui/format";
import { Icon } from "../ui/icon";
import { Shown, State } from "../ui/states";
import { type Column, Search, Table } from "../ui/table";
import "../styles/classes.css";

const EVERY_MS = 5000;

export function Classes() {
  const loaded = useResource<ClassesAnswer>("/api/v1/classes", { every: EVERY_MS });
  const [, hash] = place.value.path;
  return (
    <div class="view">
      {!loaded.data?.enabled && <Head />}
      <Shown of={loaded} lines={8}>
        {(answer) => {
          if (!answer.enabled) {
            return (
              <State icon="classes" title="Answers are not kept">
                <p>
                  The configuration has <code>equivalence.enabled: false</code>: every pod is judged
                  by itself.
                </p>
              </State>
            );
          }
          const found = hash ? answer.classes.find((each) => each.hash === hash) : undefined;
          if (hash) return <OneClass hash={hash} found={found} />;
          return <AllClasses answer={answer} />;
        }}
      </Shown>
    </div>
  );
}

function Head() {
  return (
    <header class="view-head">
      <div>
        <h1>Classes</h1>
        <p>
          Pods that are equal to every plugin form a class. What a plugin says of a node is kept,
          and computed again only where something has changed.
        </p>
      </div>
    </header>
  );
}

/** The share of answers that did not have to be computed. */
function rateOf(needed: number, misses: number): number {
  return needed > 0 ? Math.max(0, 1 - misses / needed) : Number.NaN;
}

function AllClasses({ answer }: { answer: ClassesAnswer }) {
  const filter = place.value.query.get("filter") ?? "";
  const needed = answer.plugins.reduce((sum, each) => sum + each.needed, 0);
  const shown = useMemo(() => {
    const wanted = filter.toLowerCase();
    return answer.classes.filter((each) =>
      `${each.hash} ${each.profile} ${namesOf(each).join(" ")}`.toLowerCase().includes(wanted),
    );
  }, [answer.classes, filter]);
  return (
    <>
      <Head />
      <dl class="tiles">
        <Tile name="Answers not computed" value={percent(rateOf(needed, answer.misses))}>
          {count(Math.max(0, needed - answer.misses))} of {count(needed)}
        </Tile>
        <Tile name="Classes" value={count(answer.known)}>
          answers are kept for {count(answer.kept)}
        </Tile>
        <Tile name="Memory" value={bytes(answer.bytes)}>
          of {bytes(answer.budget)}, {plural(answer.columns, "column")}
        </Tile>
        <Tile name="Evicted" value={count(answer.evictions)}>
          {answer.evictions ? "the budget is too small for all" : "the budget suffices"}
        </Tile>
      </dl>
      <section class="card">
        <div class="card-head">
          <h2>Hit rates by plugin</h2>
          <p>The share of filter results and scores that came from the cache</p>
        </div>
        <div class="card-body">
          <Plugins plugins={answer.plugins} />
        </div>
      </section>
      <section class="card">
        <div class="card-head">
          <h2>{plural(answer.classes.length, "class", "classes")}</h2>
          <Search
            value={filter}
            label="Filter classes"
            onInput={(text) => setQuery({ filter: text || null })}
          />
        </div>
        <Table
          label="Classes"
          columns={COLUMNS}
          rows={shown}
          id={(row) => row.hash}
          href={(row) => link("classes", row.hash)}
          height={560}
          empty={
            <State icon="classes" title={filter ? "No class is so" : "No pod was judged yet"}>
              <p>
                {filter ? "Another filter shows others." : "Classes appear with the first pods."}
              </p>
            </State>
          }
        />
      </section>
    </>
  );
}

function Tile({
  name,
  value,
  children,
}: {
  name: string;
  value: string;
  children: ComponentChildren;
}) {
  return (
    <div class="card tile">
      <dt>{name}</dt>
      <dd class="tile-said number">{value}</dd>
      <dd class="tile-more">{children}</dd>
    </div>
  );
}

/** A name in CamelCase that may be broken between its words. */
function breakable(name: string): ComponentChildren {
  return name.split(/(?<=[a-z])(?=[A-Z])/).map((word) => (
    <>
      {word}
      <wbr />
    </>
  ));
}

function Plugins({ plugins }: { plugins: PluginHits[] }) {
  const used = plugins.filter((each) => each.needed > 0);
  if (!used.length) return <p class="quieter">No plugin has run yet.</p>;
  return (
    <ul class="hits">
      {used
        .sort((one, other) => other.misses - one.misses || other.needed - one.needed)
        .map((each) => {
          const rate = rateOf(each.needed, each.misses);
          return (
            <li key={`${each.plugin}${each.point}`}>
              <span class="cut">{breakable(each.plugin)}</span>
              <span class="tag">{each.point}</span>
              <span
                class="meter"
                role="meter"
                aria-label={`${each.plugin} at ${each.point}: hit rate`}
                aria-valuemin={0}
                aria-valuemax={100}
                aria-valuenow={Math.round(100 * rate)}
              >
                <i style={{ width: `${100 * rate}%` }} />
              </span>
              <span class="number">{percent(rate)}</span>
              <span class="number quieter small">
                {count(each.misses)} computed in {plural(each.evaluations, "call")}
              </span>
            </li>
          );
        })}
    </ul>
  );
}

function namesOf(each: PodClass): string[] {
  return Object.values(each.plugins).flatMap((plugins) => plugins.map((plugin) => plugin.name));
}

function withMode(each: PodClass, mode: string): number {
  return Object.values(each.plugins)
    .flat()
    .filter((plugin) => plugin.mode === mode).length;
}

const COLUMNS: Column<PodClass>[] = [
  {
    name: "hash",
    title: "Class",
    width: "minmax(0, 1.3fr)",
    cell: (row) => <span class="mono">{row.hash}</span>,
  },
  {
    name: "profile",
    title: "Profile",
    width: "minmax(0, 1fr)",
    from: 760,
    by: (row) => row.profile,
    cell: (row) => row.profile,
  },
  {
    name: "modes",
    title: "Plugins",
    width: "minmax(0, 1.6fr)",
    from: 900,
    by: (row) => withMode(row, "kept"),
    cell: (row) => (
      <span class="quiet">
        {withMode(row, "kept")} kept
        {withMode(row, "recomputed") > 0 &&
          `, ${withMode(row, "recomputed")} computed for each pod`}
        {withMode(row, "fresh") > 0 && `, ${withMode(row, "fresh")} asked for each pod`}
      </span>
    ),
  },
  {
    name: "priority",
    title: "Priority",
    width: "7.5rem",
    end: true,
    from: 620,
    by: (row) => row.priority,
    cell: (row) => <span class="number">{count(row.priority)}</span>,
  },
  {
    name: "feasible",
    title: "Nodes that fit",
    width: "7rem",
    end: true,
    from: 480,
    by: (row) => row.feasible ?? -1,
    cell: (row) => <span class="number">{row.feasible === null ? "–" : count(row.feasible)}</span>,
  },
  {
    name: "pods",
    title: "Judged",
    width: "5rem",
    end: true,
    by: (row) => row.pods,
    cell: (row) => <span class="number">{count(row.pods)}</span>,
  },
];

const MODES: Record<ClassPlugin["mode"], { word: string; tone: string }> = {
  kept: { word: "kept", tone: "good" },
  recomputed: { word: "computed for each pod", tone: "info" },
  fresh: { word: "asked for each pod", tone: "warn" },
};

function OneClass({ hash, found }: { hash: string; found: PodClass | undefined }) {
  return (
    <>
      <header class="view-head">
        <div>
          <a class="back" href={link("classes")}>
            <Icon name="chevron" small /> All classes
          </a>
          <h1>Class {hash}</h1>
          {found && (
            <p>
              Pods of {found.profile} at priority {count(found.priority)}, judged{" "}
              {plural(found.pods, "time")};{" "}
              {found.feasible === null
                ? "nothing is kept now"
                : `${plural(found.feasible, "node")} fit`}
              , {bytes(found.bytes)}
            </p>
          )}
        </div>
      </header>
      {found ? (
        Object.entries(found.plugins).map(([point, plugins]) => (
          <section class="card" key={point}>
            <div class="card-head">
              <h2>{point === "filter" ? "Filters" : "Scores"}</h2>
              {(found.silent[point] ?? []).length > 0 && (
                <p>Nothing to say of such pods: {(found.silent[point] ?? []).join(", ")}</p>
              )}
            </div>
            <ul class="card-body modes">
              {plugins.map((plugin) => (
                <li key={plugin.name}>
                  <span class="cut">{plugin.name}</span>
                  <span class={`badge ${MODES[plugin.mode].tone}`}>{MODES[plugin.mode].word}</span>
                  <span class="small quieter">
                    {plugin.known !== undefined &&
                      `for ${plural(plugin.known, "node")}, shared by ${plural(plugin.sharedBy ?? 0, "class", "classes")}`}
                  </span>
                </li>
              ))}
            </ul>
          </section>
        ))
      ) : (
        <State icon="classes" title="Nothing is kept for this class now">
          <p>The cache has evicted it, or no pod of it is left.</p>
        </State>
      )}
    </>
  );
}
