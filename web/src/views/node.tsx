/** One node: what it offers and has given away, its NUMA cells, its pods. */

import { useResource } from "../api/resource";
import type { CellResource, NodeAnswer, NodeDevice, NodePod, NumaState } from "../api/view_types";
import { link, podLink } from "../router";
import { amount, percent } from "../ui/amounts";
import { count, plural } from "../ui/format";
import { Icon } from "../ui/icon";
import { Name } from "../ui/name";
import { Shown, State } from "../ui/states";
import { type Column, Table } from "../ui/table";

const EVERY_MS = 3000;
const SHOWN_LABELS = 40;

export function NodeView({ name }: { name: string }) {
  const path = `/api/v1/node?name=${encodeURIComponent(name)}`;
  const loaded = useResource<NodeAnswer>(path, { every: EVERY_MS });
  return (
    <div class="view">
      <header class="view-head">
        <div>
          <a class="back" href={link("nodes")}>
            <Icon name="chevron" small /> All nodes
          </a>
          <h1>{name}</h1>
          {loaded.data && <Marks node={loaded.data} />}
        </div>
      </header>
      {loaded.error?.status === 404 ? (
        <State icon="empty" title="There is no such node">
          <p>It was deleted, or the name is wrong.</p>
          <a class="button" href={link("nodes")}>
            All nodes
          </a>
        </State>
      ) : (
        <Shown of={loaded}>{(node) => <Body node={node} />}</Shown>
      )}
    </div>
  );
}

function Marks({ node }: { node: NodeAnswer }) {
  const ready = node.conditions.Ready;
  return (
    <div class="row wrap marks">
      {ready !== undefined && (
        <span class={`badge ${ready === "True" ? "good" : "bad"}`}>
          {ready === "True" ? "Ready" : "Not ready"}
        </span>
      )}
      {node.unschedulable && <span class="badge warn">Cordoned</span>}
      {node.taints.map((taint) => (
        <span class="badge hold" key={`${taint.key}${taint.effect}`}>
          {taint.key}
          {taint.value && `=${taint.value}`}:{taint.effect}
        </span>
      ))}
    </div>
  );
}

function Body({ node }: { node: NodeAnswer }) {
  return (
    <>
      <section class="card">
        <div class="card-head">
          <h2>Resources</h2>
          <p>Requested by pods, of allocatable</p>
        </div>
        <div class="card-body">
          <Resources node={node} />
        </div>
      </section>
      {node.numa && <Numa numa={node.numa} />}
      {node.devices.length > 0 && <Devices devices={node.devices} />}
      <section class="card">
        <div class="card-head">
          <h2>{plural(node.pods, "pod")}</h2>
          <p>
            {node.podsOnNode.length < node.pods
              ? `The first ${node.podsOnNode.length}, by priority`
              : `Of ${count(node.podLimit)} that it takes`}
          </p>
        </div>
        <Pods pods={node.podsOnNode} />
      </section>
      <section class="card">
        <div class="card-head">
          <h2>Labels</h2>
        </div>
        <div class="card-body">
          <Labels labels={node.labels} />
        </div>
      </section>
    </>
  );
}

function Resources({ node }: { node: NodeAnswer }) {
  const names = Object.keys({ ...node.allocatable, ...node.requested }).sort(byWeight);
  return (
    <ul class="resources">
      {names.map((name) => (
        <ResourceBar
          key={name}
          name={name}
          taken={node.requested[name] ?? 0}
          of={node.allocatable[name] ?? 0}
        />
      ))}
      <ResourceBar name="pods" taken={node.pods} of={node.podLimit} />
    </ul>
  );
}

/** CPU and memory first, then by name. */
function byWeight(one: string, other: string): number {
  const weight = (name: string): number => ["cpu", "memory"].indexOf(name) + 1 || 3;
  return weight(one) - weight(other) || one.localeCompare(other);
}

function ResourceBar({ name, taken, of }: { name: string; taken: number; of: number }) {
  const share = of > 0 ? taken / of : Number.NaN;
  return (
    <li>
      <span class="cut" title={name}>
        {name}
      </span>
      <Meter label={name} share={share} />
      <span class="number">
        {amount(name, taken)} <span class="quieter">of {amount(name, of)}</span>
      </span>
      <span class="number quiet">{percent(share)}</span>
    </li>
  );
}

function Meter({ label, share, second }: { label: string; share: number; second?: boolean }) {
  const bounded = Number.isNaN(share) ? 0 : Math.min(1, share);
  return (
    <span
      class={second ? "meter second" : "meter"}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(100 * bounded)}
    >
      <i style={{ width: `${100 * bounded}%` }} class={share > 1 ? "over" : ""} />
    </span>
  );
}

const STATE_WORDS: Record<string, string> = {
  confirmed: "The node's object counts all settled pods",
  unconfirmed: "The node's object is not confirmed: all pods are reserved on top",
  "not-enforced": "The kubelet aligns nothing: any cell will do",
  published: "The node's object is used as it is",
  unknown: "The node has no object now",
};

function Numa({ numa }: { numa: NumaState }) {
  return (
    <section class="card">
      <div class="card-head">
        <h2>NUMA cells</h2>
        <p>
          {numa.policy}, by {numa.scope}. {STATE_WORDS[numa.state] ?? numa.state}.
        </p>
      </div>
      <div class="card-body stack">
        <div class="map-legend">
          <span class="legend-mark">
            <i class="mark-first" aria-hidden="true" /> reserved by the scheduler
          </span>
          <span class="legend-mark">
            <i class="mark-second" aria-hidden="true" /> reported by the node
          </span>
        </div>
        <div class="cells">
          {numa.cells.map((cell) => (
            <div class="cell" key={cell.name}>
              <h3>{cell.name}</h3>
              {Object.entries(cell.resources)
                .sort(([one], [other]) => byWeight(one, other))
                .map(([name, each]) => (
                  <CellBars key={name} name={name} of={each} />
                ))}
            </div>
          ))}
        </div>
        <Unsettled
          title="Not settled yet, and reserved wherever they may be"
          pods={numa.unsettled}
        />
        <Unsettled title="Gone, and still counted by the node" pods={numa.released} />
      </div>
    </section>
  );
}

function CellBars({ name, of }: { name: string; of: CellResource }) {
  const share = (taken: number): number => (of.allocatable ? taken / of.allocatable : Number.NaN);
  const doubt = of.reserved - of.reservedAtLeast;
  return (
    <div class="cell-bars">
      <div class="row spread">
        <span class="cut" title={name}>
          {name}
        </span>
        <span class="number small quieter">of {amount(name, of.allocatable)}</span>
      </div>
      <div class="cell-bar">
        <Meter label={`${name} reserved`} share={share(of.reserved)} />
        <span class="number small">{amount(name, of.reserved)}</span>
      </div>
      <div class="cell-bar">
        <Meter label={`${name} reported`} share={share(of.reported)} second />
        <span class="number small">{amount(name, of.reported)}</span>
      </div>
      {doubt > 0 && <p class="small quieter">{amount(name, doubt)} of it may be in another cell</p>}
    </div>
  );
}

function Unsettled({ title, pods }: { title: string; pods: string[] }) {
  if (!pods.length) return null;
  return (
    <div class="stack tight">
      <h3>{title}</h3>
      <div class="row wrap">
        {pods.map((pod) => (
          <a class="tag" key={pod} href={podLink(pod)}>
            {pod}
          </a>
        ))}
      </div>
    </div>
  );
}

const DEVICE_COLUMNS: Column<NodeDevice>[] = [
  {
    name: "device",
    title: "Device",
    width: "minmax(0, 1.8fr)",
    by: (row) => row.device,
    cell: (row) => row.device,
  },
  {
    name: "driver",
    title: "Driver",
    width: "minmax(0, 1.2fr)",
    from: 600,
    by: (row) => row.driver,
    cell: (row) => row.driver,
  },
  {
    name: "pool",
    title: "Pool",
    width: "minmax(0, 1fr)",
    from: 800,
    by: (row) => row.pool,
    cell: (row) => row.pool,
  },
  {
    name: "claims",
    title: "Allocated to",
    width: "minmax(0, 1.8fr)",
    by: (row) => row.reserved.length,
    cell: (row) => <Holders device={row} />,
  },
];

const EXCLUDED = "Other devices have what it takes of shared counters";

/** The claims that have a device; those that are only reserved, or still only reported, say so. */
function Holders({ device }: { device: NodeDevice }) {
  const all = [...new Set([...device.reserved, ...device.reported])];
  if (!all.length) {
    return device.taints.length ? (
      <span class="badge hold">{device.taints.join(", ")}</span>
    ) : (
      <span class="quieter" title={device.excluded ? EXCLUDED : undefined}>
        {device.excluded ? "not available" : "not allocated"}
      </span>
    );
  }
  return (
    <>
      {all.map((claim) => (
        <span key={claim} title={claim}>
          {claim} {!device.reported.includes(claim) && <span class="badge info">reserved</span>}
          {!device.reserved.includes(claim) && <span class="badge warn">only reported</span>}
        </span>
      ))}
    </>
  );
}

function Devices({ devices }: { devices: NodeDevice[] }) {
  const taken = devices.filter((device) => device.reserved.length).length;
  const excluded = devices.filter((device) => device.excluded).length;
  return (
    <section class="card">
      <div class="card-head">
        <h2>{plural(devices.length, "device")}</h2>
        <p>
          {count(taken)} allocated
          {excluded > 0 && `, ${count(excluded)} not available`}
        </p>
      </div>
      <Table
        label="Devices"
        columns={DEVICE_COLUMNS}
        rows={devices}
        id={(row) => `${row.driver}/${row.pool}/${row.device}`}
        height={420}
      />
    </section>
  );
}

const POD_COLUMNS: Column<NodePod>[] = [
  {
    name: "pod",
    title: "Pod",
    width: "minmax(0, 2fr)",
    by: (row) => row.pod,
    cell: (row) => <Name of={row.pod} />,
  },
  {
    name: "state",
    title: "State",
    width: "6.5rem",
    from: 620,
    cell: (row) =>
      row.deleting ? (
        <span class="badge">Terminating</span>
      ) : row.assumed ? (
        <span class="badge info">Being bound</span>
      ) : null,
  },
  {
    name: "priority",
    title: "Priority",
    width: "7rem",
    end: true,
    from: 760,
    by: (row) => row.priority,
    cell: (row) => <span class="number">{count(row.priority)}</span>,
  },
  {
    name: "cpu",
    title: "CPU",
    width: "3.5rem",
    end: true,
    by: (row) => row.requests.cpu ?? 0,
    cell: (row) => <span class="number">{amount("cpu", row.requests.cpu ?? 0)}</span>,
  },
  {
    name: "memory",
    title: "Memory",
    width: "5rem",
    end: true,
    by: (row) => row.requests.memory ?? 0,
    cell: (row) => <span class="number">{amount("memory", row.requests.memory ?? 0)}</span>,
  },
  {
    name: "others",
    title: "Others",
    width: "minmax(0, 2fr)",
    from: 900,
    cell: (row) =>
      others(row)
        .map(([name, value]) => `${name} ${amount(name, value)}`)
        .join(", "),
  },
];

/** What a pod requests besides CPU and memory. */
function others(pod: NodePod): [string, number][] {
  return Object.entries(pod.requests).filter(([name]) => name !== "cpu" && name !== "memory");
}

function Pods({ pods }: { pods: NodePod[] }) {
  const plain = !pods.some((pod) => others(pod).length);
  return (
    <Table
      label="Pods of the node"
      columns={POD_COLUMNS.filter((column) => column.name !== "others" || !plain)}
      rows={pods}
      id={(row) => row.pod}
      href={(row) => podLink(row.pod)}
      height={520}
      empty={<State icon="pods" title="No pod is on this node" />}
    />
  );
}

function Labels({ labels }: { labels: Record<string, string> }) {
  const all = Object.entries(labels);
  if (!all.length) return <p class="quieter">No labels</p>;
  return (
    <div class="row wrap">
      {all.slice(0, SHOWN_LABELS).map(([name, value]) => (
        <span class="tag" key={name} title={`${name}=${value}`}>
          {name}={value}
        </span>
      ))}
      {all.length > SHOWN_LABELS && (
        <span class="quieter">and {all.length - SHOWN_LABELS} more</span>
      )}
    </div>
  );
}
