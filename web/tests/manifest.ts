import { deepEqual, equal, rejects } from "node:assert/strict";
import { test } from "node:test";

import { readManifest, writeManifest } from "../src/manifest";

test("a pod in YAML", async () => {
  const read = await readManifest("kind: Pod\nmetadata: {name: a}\nspec:\n  containers: []\n");
  deepEqual(JSON.parse(read.json), {
    kind: "Pod",
    metadata: { name: "a" },
    spec: { containers: [] },
  });
  equal(read.replicas, null);
});

test("the same in JSON", async () => {
  const read = await readManifest('{"kind": "Pod", "metadata": {"name": "a"}}');
  equal(read.json, '{"kind":"Pod","metadata":{"name":"a"}}');
});

test("a workload is read as a pod of its template, with its replicas", async () => {
  const text = `
apiVersion: v1
kind: ConfigMap
---
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  replicas: 7
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main}]}
`;
  const read = await readManifest(text);
  equal(read.replicas, 7);
  deepEqual(JSON.parse(read.json), {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "web", namespace: "team", labels: { app: "web" } },
    spec: { containers: [{ name: "main" }] },
  });
});

test("of a List the first pod is read", async () => {
  const item = '{"kind": "Pod", "metadata": {"name": "a"}}';
  const read = await readManifest(`{"kind": "List", "items": [{"kind": "Service"}, ${item}]}`);
  equal(read.json, '{"kind":"Pod","metadata":{"name":"a"}}');
});

test("a kind may be called as what every object has", async () => {
  await rejects(readManifest("kind: constructor"), /no Pod here/);
});

test("claims of a StatefulSet come with its first pod", async () => {
  const text = `
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: late}
  template:
    spec:
      volumes: [{name: tmp, emptyDir: {}}]
`;
  const read = await readManifest(text);
  equal(read.replicas, 3);
  const { kind, items } = JSON.parse(read.json);
  equal(kind, "List");
  const [pod, claim] = items;
  equal(pod.metadata.name, "db-0");
  equal(pod.metadata.ownerReferences[0].kind, "StatefulSet");
  deepEqual(pod.spec.volumes, [
    { name: "tmp", emptyDir: {} },
    { name: "data", persistentVolumeClaim: { claimName: "data-db-0" } },
  ]);
  deepEqual(claim, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "data-db-0" },
    spec: { storageClassName: "late" },
  });
});

test("what is wrong is said", async () => {
  await rejects(readManifest("  "), /Paste the manifest/);
  await rejects(readManifest("kind: Pod\nkind: Pod"), /unique/);
  await rejects(readManifest("- a"), /is an object/);
  await rejects(readManifest("kind: Service"), /no Pod here/);
  await rejects(readManifest("kind: Deployment\nspec: {}"), /spec.template is missing/);
});

test("a billion laughs are not expanded", async () => {
  const levels = Array.from({ length: 12 }, (_, n) =>
    n
      ? `a${n}: &a${n} [${Array(10)
          .fill(`*a${n - 1}`)
          .join(", ")}]`
      : "a0: &a0 [x, x]",
  );
  await rejects(readManifest(`kind: Pod\n${levels.join("\n")}`), /alias/i);
});

test("a manifest is written as it is read", async () => {
  const manifest = {
    kind: "Pod",
    spec: { containers: [{ resources: { requests: { cpu: "2", memory: "4Gi" } } }] },
  };
  const read = await readManifest(await writeManifest(manifest));
  deepEqual(JSON.parse(read.json), manifest);
});
