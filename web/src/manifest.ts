/** Manifests as people paste them: YAML or JSON, a Pod or something with a template of pods. */

type Json = Record<string, unknown>;

/** What is wrong with a manifest, for people. */
export class ManifestError extends Error {}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Where kinds of workloads keep the template of their pods. */
const TEMPLATES: Record<string, string[]> = {
  Deployment: ["spec", "template"],
  ReplicaSet: ["spec", "template"],
  StatefulSet: ["spec", "template"],
  DaemonSet: ["spec", "template"],
  ReplicationController: ["spec", "template"],
  Job: ["spec", "template"],
  CronJob: ["spec", "jobTemplate", "spec", "template"],
};

function found(object: Json, path: string[]): unknown {
  return path.reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), object);
}

/** The pod of an object: itself, or the template of a workload with the workload's name. */
function podOf(object: Json): Json {
  const kind = String(object["kind"] ?? "Pod");
  const path = TEMPLATES[kind];
  if (!path) return object;
  const template = found(object, path);
  if (!isObject(template)) throw new ManifestError(`${kind}: ${path.join(".")} is missing`);
  const metadata = isObject(template["metadata"]) ? template["metadata"] : {};
  const own = isObject(object["metadata"]) ? object["metadata"] : {};
  const names = { name: own["name"], namespace: own["namespace"] };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...names, ...metadata },
    spec: template["spec"] ?? {},
  };
}

export interface Read {
  /** The Pod, in JSON. */
  json: string;
  /** How many pods the manifest asks for; null if it does not say. */
  replicas: number | null;
}

/** The first pod of a text; throws ManifestError. The parser is loaded when it is needed. */
export async function readManifest(text: string): Promise<Read> {
  if (!text.trim()) throw new ManifestError("Paste the manifest of a pod, or pick a pod.");
  const { parseAllDocuments } = await import("yaml");
  const documents = parseAllDocuments(text, { uniqueKeys: true });
  const all = Array.isArray(documents) ? documents : [];
  for (const document of all) {
    const [fault] = document.errors;
    if (fault) throw new ManifestError(fault.message);
    const value: unknown = document.toJS();
    if (value === null) continue;
    if (!isObject(value))
      throw new ManifestError("A manifest is an object with kind, metadata and spec.");
    const kind = String(value["kind"] ?? "Pod");
    if (kind !== "Pod" && !TEMPLATES[kind]) continue;
    const replicas = isObject(value["spec"]) ? value["spec"]["replicas"] : null;
    return {
      json: JSON.stringify(podOf(value)),
      replicas: typeof replicas === "number" && kind !== "Pod" ? replicas : null,
    };
  }
  throw new ManifestError("There is no Pod here, and nothing that makes pods.");
}

/** A manifest as YAML. */
export async function writeManifest(manifest: unknown): Promise<string> {
  const { stringify } = await import("yaml");
  return stringify(manifest, { lineWidth: 100 });
}
