"""Stock kubectls print the same against the playground's API server and against the real one.

Typed are commands of daily life, with kubectl of the control plane's version, the distribution's,
and whichever is installed. The real server is a bare one: controllers are not compared here.
"""

import asyncio
import json
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e.controlplane.binaries import locate
from e2e.controlplane.debian import KUBERNETES_CLIENT
from e2e.harness.cluster import ControlPlane
from sandbox.apiserver import ApiServer

SECONDS = 120
CHANGING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z| [+-]\d{4})", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} [\d:]+ [+-]\d{4}", "TIME"),
    (r'resourceVersion: "\d+"', "resourceVersion: VERSION"),
    (r"Resource Version: +\d+", "Resource Version: VERSION"),
    (r"/(LIVE|MERGED)-\d+", r"/\1"),
    (r"(?m)(\s)\d+m?\d*s$", r"\1AGE"),
    (r"(?m)(\s)\d+m?\d*s(\s)", r"\1AGE\2"),
    (r" +", " "),
    (r"(?m) $", ""),
    # Who answers, and where.
    (r"https?://127\.0\.0\.1:\d+", "URL"),
    (r"v1\.36\.3(\+sandbox)?", "VERSION"),
    (r"10\.\d+\.\d+\.\d+", "ADDRESS"),
)


class Kubectl:
    """One kubectl, used with one server."""

    def __init__(self, program: Path, kubeconfig: Path, directory: Path) -> None:
        self._program = program
        self._directory = directory
        home = directory / kubeconfig.stem
        home.mkdir()
        # Of its own home: what it keeps of discovery is not for others.
        self._environment = os.environ | {"KUBECONFIG": str(kubeconfig), "HOME": str(home)}

    async def __call__(self, command: str, given: str = "") -> str:
        """What a command prints, errors too, without what changes from time to time."""
        process = await asyncio.create_subprocess_exec(
            str(self._program),
            *_words(command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            cwd=self._directory,
        )
        async with asyncio.timeout(SECONDS):
            printed, _ = await process.communicate(given.encode())
        text = printed.decode()
        for pattern, constant in CHANGING:
            text = re.sub(pattern, constant, text)
        return _changes(text) if command.startswith("diff") else text


def _changes(text: str) -> str:
    """The changed lines of a diff; whether a second has passed is no matter."""
    lines = [line for line in text.splitlines() if line.startswith(("+", "-"))]
    return "\n".join(line for line in lines if "time:" not in line)


def _words(command: str) -> list[str]:
    return [word.strip("'") for word in re.findall(r"'[^']*'|\S+", command)]


@pytest.fixture(scope="module")
def bare_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("bare"), bare=True) as running:
        yield running


@pytest.fixture(params=["built", "distribution", "installed"])
def program(request: pytest.FixtureRequest) -> Path:
    """A stock kubectl."""
    match request.param:
        case "built":
            return locate("kubectl")
        case "distribution":
            return KUBERNETES_CLIENT.locate("kubectl")
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("no kubectl is installed")
    return Path(found)


@pytest.fixture
async def playground(program: Path, tmp_path: Path) -> AsyncIterator[Kubectl]:
    """That kubectl and the embedded server."""
    async with ApiServer() as server:
        kubeconfig = tmp_path / "playground.kubeconfig"
        kubeconfig.write_text(json.dumps(server.kubeconfig()))
        yield Kubectl(program, kubeconfig, tmp_path)


@pytest.fixture
def real(program: Path, tmp_path: Path, bare_control_plane: ControlPlane) -> Kubectl:
    """That kubectl and the real server."""
    return Kubectl(program, bare_control_plane.admin_kubeconfig, tmp_path)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: NAMESPACE, labels: {app: app}}
spec:
  replicas: 2
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - name: main
        image: registry.example/app:1
        resources: {requests: {cpu: 100m}}
        ports: [{containerPort: 80}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: lonely, namespace: NAMESPACE, labels: {app: lonely}}
spec:
  automountServiceAccountToken: false
  schedulerName: nobody
  containers: [{name: main, image: "registry.example/app:1"}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: NAMESPACE, labels: {kubernetes.io/hostname: NAMESPACE}}
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.NAMESPACE.example.com}
spec:
  group: NAMESPACE.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, shortNames: [th], listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.replicas}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {replicas: {type: integer, description: How many.}}
          status:
            type: object
            properties: {replicas: {type: integer}}
"""
THING = """
apiVersion: NAMESPACE.example.com/v1
kind: Thing
metadata: {name: one, namespace: NAMESPACE}
spec: {replicas: 2}
"""
# The real server may find at any moment that it does not know the address of a new service, and has
# an event then: services come after events are listed.
COMMANDS = """
apply -f deployment.yaml
apply -f deployment.yaml
apply -f five.yaml
get deployment app -n NAMESPACE -o jsonpath={.spec.replicas}/{.metadata.generation}
diff -f deployment.yaml
create -f deployment.yaml
apply --server-side -f deployment.yaml
apply --server-side -f five.yaml --field-manager=somebody
apply --server-side -f five.yaml --field-manager=somebody --force-conflicts
apply --server-side -f deployment.yaml
apply --dry-run=server -f five.yaml
apply --dry-run=client -f five.yaml
scale -n NAMESPACE deployment app --replicas=7
scale -n NAMESPACE deployment app --current-replicas=3 --replicas=8
get -n NAMESPACE deploy
get -n NAMESPACE deploy app -o wide
get -n NAMESPACE deployments.apps app --show-labels
get -n NAMESPACE deploy -o name
get -n NAMESPACE deploy -l app=app
get -n NAMESPACE deploy -l app!=app
get -n NAMESPACE deploy nothing
get -n NAMESPACE nonsense
set image -n NAMESPACE deployment/app main=registry.example/app:2
set resources -n NAMESPACE deployment/app --requests=cpu=200m --limits=memory=1Gi
set env -n NAMESPACE deployment/app COLOUR=blue
rollout pause -n NAMESPACE deployment/app
rollout resume -n NAMESPACE deployment/app
patch -n NAMESPACE deployment app -p '{"spec":{"replicas":1}}'
patch -n NAMESPACE deployment app --type=merge -p '{"metadata":{"labels":{"tier":"x"}}}'
patch -n NAMESPACE deployment app --type=json -p '[{"op":"remove","path":"/metadata/labels/tier"}]'
patch -n NAMESPACE deployment app -p '{"spec":{"replicas":-1}}'
patch -n NAMESPACE deployment app -p '{"spec":{"template":{"metadata":{"labels":{"app":"x"}}}}}'
annotate -n NAMESPACE deployment app note=one
label -n NAMESPACE deployment app tier=front
label -n NAMESPACE deployment app tier=back
label -n NAMESPACE deployment app tier=back --overwrite
label -n NAMESPACE deployment app tier-
describe -n NAMESPACE deployment app
create -n NAMESPACE deployment typed --image=registry.example/app:1
create -n NAMESPACE job typed --image=registry.example/app:1
create -n NAMESPACE configmap typed --from-literal=a=b
create -n NAMESPACE secret generic typed --from-literal=a=b
create -n NAMESPACE serviceaccount typed
create -f pod.yaml
get -n NAMESPACE pods
get -n NAMESPACE po -o wide
get -n NAMESPACE pod lonely -o jsonpath={.status.phase}
describe -n NAMESPACE pod lonely
set image -n NAMESPACE pod/lonely main=registry.example/app:2
patch -n NAMESPACE pod lonely -p '{"spec":{"schedulerName":"else"}}'
wait -n NAMESPACE --for=condition=Ready pod/lonely --timeout=3s
wait -n NAMESPACE --for=jsonpath={.status.phase}=Pending pod/lonely --timeout=300s
get -n NAMESPACE all
delete -n NAMESPACE pod lonely
get -n NAMESPACE events
create -n NAMESPACE service clusterip typed --tcp=80
get -n NAMESPACE jobs,configmaps,secrets,sa,svc
get -n NAMESPACE all
create -f node.yaml
taint node NAMESPACE reserved=yes:NoSchedule
taint node NAMESPACE reserved=yes:NoSchedule
taint node NAMESPACE reserved-
cordon NAMESPACE
get node NAMESPACE
uncordon NAMESPACE
drain NAMESPACE
delete node NAMESPACE
explain deployment.spec.replicas
explain pod.spec.containers
explain node.status.allocatable
explain pod.spec.nonsense
auth can-i create pods
apply -f misspelt.yaml
delete -n NAMESPACE deployment app typed
delete -n NAMESPACE deployment app
delete -n NAMESPACE configmap,secret,service typed
create -f definition.yaml
wait --for=condition=established crd/things.NAMESPACE.example.com --timeout=300s
apply -f thing.yaml
apply -f three.yaml
get -n NAMESPACE th
get -n NAMESPACE things.NAMESPACE.example.com one -o wide
apply --server-side -f thing.yaml
label -n NAMESPACE thing one tier=front
scale -n NAMESPACE thing one --replicas=5
patch -n NAMESPACE thing one --type=merge -p '{"spec":{"replicas":4}}'
patch -n NAMESPACE thing one -p '{"spec":{"replicas":4}}'
describe -n NAMESPACE thing one
delete -n NAMESPACE thing one
delete -f definition.yaml
top pods
""".strip().splitlines()
DIFFERENT = {
    # The real server also prints the difference between the two pods, in Go's names.
    'patch -n NAMESPACE pod lonely -p \'{"spec":{"schedulerName":"else"}}\'',
}


def _write_manifests(directory: Path, namespace: str) -> None:
    texts = {
        "deployment": DEPLOYMENT,
        "five": DEPLOYMENT.replace("replicas: 2", "replicas: 5"),
        "misspelt": DEPLOYMENT.replace("name: app,", "name: wrong,").replace("image:", "imagee:"),
        "definition": DEFINITION,
        "thing": THING,
        "three": THING.replace("replicas: 2", "replicas: 3"),
        "pod": POD,
        "node": NODE,
    }
    for name, text in texts.items():
        (directory / f"{name}.yaml").write_text(text.replace("NAMESPACE", namespace))


async def test_daily_commands_print_the_same(
    playground: Kubectl, real: Kubectl, tmp_path: Path
) -> None:
    namespace = f"typed-{secrets.token_hex(4)}"
    _write_manifests(tmp_path, namespace)
    for each in (playground, real):
        assert "created" in await each(f"create namespace {namespace}")
    # A controller makes it, and there is none.
    assert "created" in await real(f"create serviceaccount default -n {namespace}")
    differences = []
    for line in COMMANDS:
        command = line.replace("NAMESPACE", namespace)
        here, there = await playground(command), await real(command)
        if here != there and line not in DIFFERENT:
            differences.append(f"$ kubectl {command}\n--- playground\n{here}\n--- real\n{there}")
    assert not differences, "\n".join(differences)
