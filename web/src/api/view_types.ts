/** The answers behind nodes, decisions, classes, gangs and batches. CPU is in thousandths. */

import type { Decision, Replica } from "./types";

export interface Sample {
  time: number;
  bound: number;
  attempts: number;
  p50: number | null;
  p99: number | null;
  tiers: Record<string, number>;
  loopLagMs: number;
}

export interface DecisionsAnswer {
  decisions: Decision[];
  replica: Replica;
}

/** Of one NUMA cell: allocatable, reported as taken by the node, reserved by the scheduler. */
export type CellAmounts = [number, number, number];

export interface NodeColumns {
  name: string[];
  zone: string[];
  pods: number[];
  podLimit: number[];
  capacity: Record<string, number[]>;
  requested: Record<string, number[]>;
  unschedulable: boolean[];
  taints: number[];
  cells: (CellAmounts[] | null)[] | null;
  /** Of each device: the sum of 1 (reserved by the scheduler), 2 (reported by a claim), 4 (excluded). */
  devices: (number[] | null)[] | null;
}

export interface NodeMapAnswer {
  count: number;
  resources: string[];
  nodes: NodeColumns;
  replica: Replica;
}

export interface NodePod {
  pod: string;
  priority: number;
  scheduler: string;
  assumed: boolean;
  deleting: boolean;
  requests: Record<string, number>;
}

export interface CellResource {
  capacity: number;
  allocatable: number;
  reported: number;
  reserved: number;
  reservedAtLeast: number;
}

export interface NumaState {
  policy: string;
  scope: string;
  state: string;
  unsettled: string[];
  released: string[];
  cells: { name: string; resources: Record<string, CellResource> }[];
}

export interface NodeDevice {
  driver: string;
  pool: string;
  device: string;
  /** Claims that say they have it, and those that the scheduler counts it for. */
  reported: string[];
  reserved: string[];
  /** Nobody has it, and nobody can: other devices have what it takes of shared counters. */
  excluded: boolean;
  taints: string[];
}

export interface NodeAnswer {
  name: string;
  unschedulable: boolean;
  taints: { key: string; value: string; effect: string }[];
  allocatable: Record<string, number>;
  requested: Record<string, number>;
  pods: number;
  podLimit: number;
  labels: Record<string, string>;
  conditions: Record<string, string>;
  podsOnNode: NodePod[];
  numa: NumaState | null;
  devices: NodeDevice[];
  replica: Replica;
}

export interface PluginHits {
  plugin: string;
  point: string;
  hits: number;
  misses: number;
  evaluations: number;
  needed: number;
}

export interface ClassPlugin {
  name: string;
  mode: "kept" | "recomputed" | "fresh";
  sharedBy?: number;
  known?: number;
}

export interface PodClass {
  hash: string;
  profile: string;
  priority: number;
  pods: number;
  feasible: number | null;
  bytes: number;
  plugins: Record<string, ClassPlugin[]>;
  silent: Record<string, string[]>;
}

export interface ClassesAnswer {
  enabled: boolean;
  kept: number;
  known: number;
  columns: number;
  bytes: number;
  budget: number;
  evictions: number;
  hits: number;
  misses: number;
  plugins: PluginHits[];
  changes: Record<string, number>;
  classes: PodClass[];
  replica: Replica;
}

export interface Gang {
  name: string;
  phase: string;
  minMember: number | null;
  existing: number;
  placed: number;
  waitingOnPermit: number;
  members: Record<string, number>;
  message: string;
}

export interface Batch {
  priority: number;
  pods: number;
  model: string;
  result: "solved" | "uncontended" | "greedy" | "nowhere" | "failed";
  members: number;
  classes: number;
  nodes: number;
  arcs: number;
  rounds: number;
  placed: number;
  placedOneByOne: number;
  pending: number;
  refused: number;
  poseSeconds: number;
  solveSeconds: number;
  compareSeconds: number;
  verifySeconds: number;
  takeSeconds: number;
  secondsAgo: number;
}

export interface GroupsAnswer {
  count: number;
  enabled: boolean;
  groups: Gang[];
  batching: boolean;
  batches: Batch[];
  replica: Replica;
}
