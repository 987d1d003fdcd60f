"""PodGroups on the control plane: their definition, the plugin for them, their members."""

from pathlib import Path
from typing import Any

import yaml

from e2e.harness.client import ApiClient
from e2e.harness.definitions import define
from e2e.harness.objects import Json, pod

DEFINITION = Path(__file__).parents[2] / "deploy" / "crds" / "podgroups.yaml"
LABEL = "scheduling.x-k8s.io/pod-group"


async def define_podgroups(api: ApiClient) -> None:
    """Have the API server know PodGroups from now on; it may know them already."""
    await define(api, DEFINITION)


def with_coscheduling(directory: Path, batch: Json | None = None, **args: Any) -> str:
    """A configuration file with the plugin, as an argument of the program; and with batches."""
    profile = {
        "schedulerName": "equipoise",
        "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
        "pluginConfig": [{"name": "Coscheduling", "args": args}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    file = directory / "gangs.yaml"
    own = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "batch": batch or {},
    }
    file.write_text(yaml.safe_dump_all([document, own]))
    return f"--config={file}"


def group(name: str, members: int, **spec: Any) -> Json:
    """A PodGroup that needs so many members."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": members, **spec},
    }


def member(name: str, of: str, cpu: str = "1") -> Json:
    """A pod of a group."""
    return pod(name, cpu=cpu, labels={LABEL: of})


def group_of(each: Json) -> str:
    """The group of a pod."""
    return str(each["metadata"]["labels"][LABEL])
