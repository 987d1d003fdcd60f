/** Changes of a remedy as commands for a terminal. */

import type { Change } from "./api/types";

/** What terminals obey, wherever it stands; line ends as well, outside of JSON. */
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

/** A word for a shell, quoted where it has to be; bash and zsh make control characters again. */
export function quoted(text: string): string {
  if (/^[\w./:=@%+-]+$/.test(text)) return text;
  if (!text.match(CONTROL)) return `'${text.replaceAll("'", `'\\''`)}'`;
  return `$'${text.replace(/['\\]/g, "\\$&").replace(CONTROL, (each) => escaped(each))}'`;
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** JSON without characters that a terminal obeys when it is pasted. */
function json(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent);
  return text.replace(/[\u007f-\u009f]/g, (each) => escaped(each));
}

/** Kinds that kubectl knows only with their group. */
const KINDS: Record<string, string> = {
  PodGroup: "podgroups.scheduling.x-k8s.io",
};

function target(change: Change): string {
  const kind = change.kind ?? "";
  const name = quoted(`${KINDS[kind] ?? kind.toLowerCase()}/${change.name ?? ""}`);
  return change.namespace ? `-n ${quoted(change.namespace)} ${name}` : name;
}

/** Kinds with a schema take strategic patches: lists of containers are merged by name. */
function patchType(change: Change): string {
  return change.kind && KINDS[change.kind] ? "merge" : "strategic";
}

/** Workloads whose template can be changed while they run: their pods are then replaced. */
const TEMPLATES = ["Deployment", "StatefulSet", "DaemonSet"];

/** Whether the pods of this owner, `Kind/name`, follow its template. */
export function followsTemplate(owner: string): boolean {
  return TEMPLATES.includes(owner.split("/")[0] ?? "");
}

/** The same change, made in the template that the pod comes from. */
function inTemplate(change: Change, owner: string): Change {
  const [kind = "", name = ""] = owner.split("/", 2);
  return { ...change, kind, name, patch: { spec: { template: change.patch } } };
}

/** Kinds whose spec cannot be changed once they exist. */
const ANEW = ["PersistentVolumeClaim", "ResourceClaim"];

/** What to type for a change; that of a pod goes to the template of its owner, if that helps. */
export function commandOf(change: Change, owner: string): string {
  if (change.op === "delete") return `kubectl delete ${target(change)}`;
  if (change.op === "add") {
    const object = json(change.object ?? change, 2);
    return `kubectl apply -f - <<'EOF'\n${object}\nEOF`;
  }
  if (ANEW.includes(change.kind ?? "")) return anew(change);
  if (change.kind !== "Pod") return `kubectl patch ${target(change)} ${patchOf(change)}`;
  if (followsTemplate(owner)) {
    const made = inTemplate(change, owner);
    return `kubectl patch ${target(made)} ${patchOf(made)}`;
  }
  if (!needsNewPod(change)) return `kubectl patch ${target(change)} ${patchOf(change)}`;
  return anew(change);
}

/** Deletes an object and creates it again, changed. */
function anew(change: Change): string {
  return [
    `kubectl get ${target(change)} -o json`,
    `kubectl patch --local -f - ${patchOf(change)} -o json`,
    "kubectl replace --force -f -",
  ].join(" |\n  ");
}

function patchOf(change: Change): string {
  return `--type ${patchType(change)} -p ${quoted(json(change.patch))}`;
}

/** Whether Kubernetes refuses this change of a pod that exists. */
export function needsNewPod(change: Change): boolean {
  if (change.op !== "patch" || change.kind !== "Pod") return false;
  const { spec } = change.patch as { spec?: Record<string, unknown> };
  return Object.keys(spec ?? {}).some(
    (field) => field !== "tolerations" && field !== "schedulingGates",
  );
}
