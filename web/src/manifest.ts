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

/** Where the pods of a kind have their template; null for a kind without. */
function templateOf(kind: string): string[] | null {
  return Object.hasOwn(TEMPLATES, kind) ? (TEMPLATES[kind] ?? null) : null;
}

/** The pod of an object: itself, or the template of a workload with the workload's name. */
function podOf(object: Json): Json {
  const kind = String(object["kind"] ?? "Pod");
  const path = templateOf(kind);
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

/**
 * The first pod of a StatefulSet and the claims that are made for it, named after both, in a List;
 * the pod alone if there are no templates of claims.
 */
function firstOf(set: Json, pod: Json): Json {
  const templates = found(set, ["spec", "volumeClaimTemplates"]);
  const metadata = isObject(pod["metadata"]) ? pod["metadata"] : {};
  const spec = isObject(pod["spec"]) ? pod["spec"] : {};
  const owner = { apiVersion: "apps/v1", kind: "StatefulSet", controller: true };
  const name = `${String(metadata["name"] ?? "what-if")}-0`;
  const first: Json = {
    ...pod,
    metadata: {
      ...metadata,
      name,
      ownerReferences: [{ ...owner, name: metadata["name"], uid: "what-if" }],
    },
  };
  const all = Array.isArray(templates) ? templates.filter(isObject) : [];
  if (!all.length) return first;
  const called = (each: Json): string => String(found(each, ["metadata", "name"]) ?? "");
  const names = new Set(all.map(called));
  const kept = (Array.isArray(spec["volumes"]) ? spec["volumes"] : []).filter(
    (each) => !isObject(each) || !names.has(String(each["name"])),
  );
  const volumes = [...names].map((volume) => ({
    name: volume,
    persistentVolumeClaim: { claimName: `${volume}-${name}` },
  }));
  const claims = all.map((each) => ({
    ...each,
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      ...(isObject(each["metadata"]) ? each["metadata"] : {}),
      name: `${called(each)}-${name}`,
    },
  }));
  const mounting = { ...first, spec: { ...spec, volumes: [...kept, ...volumes] } };
  return { apiVersion: "v1", kind: "List", items: [mounting, ...claims] };
}

/** The value of a document; one whose aliases make far more of it than was written is refused. */
function plain(document: { toJS: () => unknown }): unknown {
  try {
    return document.toJS();
  } catch (fault) {
    throw new ManifestError(fault instanceof Error ? fault.message : String(fault));
  }
}

/** The objects of a document: itself, or the items of a List. */
function objectsOf(value: unknown): unknown[] {
  if (value === null) return [];
  const isList = isObject(value) && value["kind"] === "List" && Array.isArray(value["items"]);
  return isList ? (value["items"] as unknown[]) : [value];
}

export interface Read {
  /** The Pod, in JSON; or a List of it and its claims. */
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
    for (const value of objectsOf(plain(document))) {
      if (!isObject(value))
        throw new ManifestError("A manifest is an object with kind, metadata and spec.");
      const kind = String(value["kind"] ?? "Pod");
      if (kind !== "Pod" && !templateOf(kind)) continue;
      const pod = podOf(value);
      const replicas = isObject(value["spec"]) ? value["spec"]["replicas"] : null;
      return {
        json: JSON.stringify(kind === "StatefulSet" ? firstOf(value, pod) : pod),
        replicas: typeof replicas === "number" && kind !== "Pod" ? replicas : null,
      };
    }
  }
  throw new ManifestError("There is no Pod here, and nothing that makes pods.");
}

/** A manifest as YAML. */
export async function writeManifest(manifest: unknown): Promise<string> {
  const { stringify } = await import("yaml");
  return stringify(manifest, { lineWidth: 100 });
}
