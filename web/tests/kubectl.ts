import { equal, ok } from "node:assert/strict";
import { test } from "node:test";

import type { Change } from "../src/api/types";
import { commandOf, quoted } from "../src/kubectl";

const POD: Change = {
  op: "patch",
  kind: "Pod",
  namespace: "team",
  name: "p",
  patch: { spec: { nodeSelector: { disk: "ssd" } } },
};

test("words that a shell would read are quoted", () => {
  equal(quoted("pod/a-1"), "pod/a-1");
  equal(quoted("a b"), "'a b'");
  equal(quoted("it's; rm -rf $HOME"), `'it'\\''s; rm -rf $HOME'`);
  equal(quoted(""), "''");
});

test("a value cannot leave its quotes", () => {
  const nasty = {
    ...POD,
    kind: "Node",
    name: "n; reboot",
    namespace: "",
    patch: { a: "'; reboot; '" },
  };
  const command = commandOf(nasty, "");
  equal(
    command,
    `kubectl patch 'node/n; reboot' --type strategic -p '{"a":"'\\''; reboot; '\\''"}'`,
  );
});

test("nothing that a terminal obeys is pasted into it", () => {
  // The API server takes any name of an owner.
  const owner = "Deployment/x\u001b[201~'\\\n; reboot\u009b";
  const change = { ...POD, patch: { metadata: { labels: { a: "\u001b\u007f\u009b'" } } } };
  const command = commandOf(change, owner);
  ok(!/[\u0000-\u001f\u007f-\u009f]/.test(command), command);
  ok(command.includes(`$'deployment/x\\u001b[201~\\'\\\\\\u000a; reboot\\u009b'`), command);
  ok(command.includes(`{"a":"\\u001b\\u007f\\u009b'\\''"}`), command);
  const added = commandOf({ op: "add", object: { kind: "\u009b\nEOF\nreboot" } }, "");
  equal(added.split("\nEOF").length, 2);
  ok(!added.includes("\u009b"));
});

test("claims are made anew, as their spec cannot be changed", () => {
  for (const kind of ["PersistentVolumeClaim", "ResourceClaim"])
    equal(
      commandOf({ ...POD, kind, name: "c", patch: { spec: { a: "b" } } }, "StatefulSet/web"),
      [
        `kubectl get -n team ${kind.toLowerCase()}/c -o json`,
        `kubectl patch --local -f - --type strategic -p '{"spec":{"a":"b"}}' -o json`,
        "kubectl replace --force -f -",
      ].join(" |\n  "),
    );
});

test("a pod of a Deployment is changed in its template", () => {
  equal(
    commandOf(POD, "Deployment/web"),
    `kubectl patch -n team deployment/web --type strategic -p '{"spec":{"template":{"spec":{"nodeSelector":{"disk":"ssd"}}}}}'`,
  );
});

test("a pod that nobody makes again is replaced where Kubernetes lets nothing else", () => {
  const command = commandOf(POD, "");
  ok(command.startsWith("kubectl get -n team pod/p -o json |"));
  ok(command.endsWith("kubectl replace --force -f -"));
});

test("tolerations and gates can be changed in place", () => {
  for (const field of ["tolerations", "schedulingGates"]) {
    const change = { ...POD, patch: { spec: { [field]: [] } } };
    equal(
      commandOf(change, ""),
      `kubectl patch -n team pod/p --type strategic -p '{"spec":{"${field}":[]}}'`,
    );
  }
});

test("kinds without a schema take merge patches", () => {
  const change: Change = {
    op: "patch",
    kind: "PodGroup",
    namespace: "a",
    name: "g",
    patch: { spec: { minMember: 2 } },
  };
  equal(
    commandOf(change, ""),
    `kubectl patch -n a podgroups.scheduling.x-k8s.io/g --type merge -p '{"spec":{"minMember":2}}'`,
  );
});

test("deletions and additions", () => {
  equal(
    commandOf({ op: "delete", kind: "Pod", namespace: "a", name: "b" }, "Deployment/x"),
    "kubectl delete -n a pod/b",
  );
  ok(
    commandOf({ op: "add", object: { kind: "Node" } }, "").startsWith(
      "kubectl apply -f - <<'EOF'\n{",
    ),
  );
});
