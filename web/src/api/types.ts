/** The answers of the API that the views read; `/openapi/v3` describes all of them. */

export interface Replica {
  identity: string;
  leading: boolean;
  leader: string;
}

export interface PendingGroup {
  namespace: string;
  profile: string;
  tier: string;
  owner: string;
  count: number;
  oldestSeconds: number;
  retrySeconds: number | null;
  attempts: number;
  plugins: string[];
  message: string;
  pods: string[];
  youngestSeconds: number;
}

export interface QueueEntry {
  pod: string;
  profile: string;
  tier: string;
  waitingSeconds: number;
  retrySeconds: number | null;
  attempts: number;
  plugins: string[];
  message: string;
  group?: string;
  behind?: string;
  node?: string;
}

export interface QueueAnswer {
  counts: Record<string, number>;
  pods: QueueEntry[];
  groups?: PendingGroup[];
  replica: Replica;
}

/** Something that is so, on a node or in the cluster. */
export interface Fact {
  type: string;
  message: string;
  plugin?: string;
  nodes?: number;
  [value: string]: unknown;
}

export interface Rejection {
  plugin: string;
  code: string;
  reasons: string[];
  facts: Fact[];
}

export interface NodeVerdict {
  fit: boolean;
  plugin: string;
  code: string;
  reasons: string[];
  all: Rejection[];
}

export interface NodeScore {
  total: number;
  plugins: Record<string, number>;
}

export interface Change {
  op: "patch" | "delete" | "add";
  kind?: string;
  namespace?: string;
  name?: string;
  patch?: unknown;
  object?: unknown;
  [value: string]: unknown;
}

export interface Remedy {
  summary: string;
  opens: string[];
  changes: Change[];
  affects: string[];
  /** How many equal pods it lets in, where several are asked about; null where nobody has tried. */
  replicas?: { asked: number; fit: number } | null;
}

export interface Wakes {
  plugin: string;
  [value: string]: unknown;
}

export interface Standing {
  state: string;
  message: string;
  plugins: string[];
  node: string | null;
  retrySeconds: number | null;
  attempts: number;
  lastTriedSeconds: number | null;
  since: number | null;
  behind: string | null;
  wakes: Wakes[];
  waitsFor: string[];
  permit: { plugin: string; seconds: number; timeoutSeconds: number }[];
}

export interface Comparison {
  node: string;
  runnerUp: string | null;
  ties: number;
  margin: number;
  parts: { plugin: string; node: number; runnerUp: number; difference: number }[];
  message: string;
}

export interface Explanation {
  pod: string;
  node: string | null;
  wouldGoTo: string | null;
  boundTo: string | null;
  countsItself: string | null;
  nominated: string | null;
  fit: string[];
  nodes: Record<string, NodeVerdict>;
  scores: Record<string, NodeScore>;
  message: string;
  standing: Standing;
  preemption: {
    node: string | null;
    victims: string[];
    violations: number;
    message: string;
  } | null;
  comparison: Comparison | null;
  history: { time: number; until: number; message: string; node?: string; count: number }[];
  batch: { costModel: string; minPending: number; chose: boolean } | null;
  facts: Fact[];
  remedies: Remedy[];
  replicas: { asked: number; fit: number; nodes: Record<string, number>; message: string } | null;
  replica: Replica;
  group?: {
    name: string;
    phase: string;
    minMember: number | null;
    existing: number;
    missing: number | null;
    placed: number;
    waiting: number;
    members: { pod: string; state: string; node: string | null }[];
    fault: string;
  } | null;
}

export interface Decision {
  seq: number;
  time: number;
  pod: string;
  result: "scheduled" | "unschedulable" | "error" | "refused";
  node: string;
  message: string;
  score: number | null;
  feasible: number;
  evaluated: number;
  duration: number;
  plugins: string[];
  model: string;
}

export interface Series {
  time: number[];
  bound: (number | null)[];
  attempts: (number | null)[];
  p50: (number | null)[];
  p99: (number | null)[];
  tiers: Record<string, (number | null)[]>;
}

export interface Overview {
  now: number;
  version: string;
  leader: boolean;
  holder: string;
  profiles: string[];
  nodes: number;
  pods: { bound: number; pending: number };
  tiers: Record<string, number>;
  intervalSeconds: number;
  series: Series;
  failing: { plugin: string; reason: string; pods: number; classes: number }[];
  loopLagMs: number | null;
  replica?: Replica;
}
