"""Documents by their interesting part only, and the problems they have."""

from typing import Any

import pytest

from scheduler.config.loading import from_dicts
from scheduler.config.problems import ConfigError

AVAILABLE = {
    "PrioritySort": {"queueSort"},
    "OtherSort": {"queueSort"},
    "NodeName": {"filter"},
    "NodeResourcesFit": {"filter", "score"},
    "DefaultBinder": {"bind"},
    "NodeResourceTopologyMatch": {"filter", "score", "reserve", "postBind"},
    "ServiceAffinity": {"filter"},
}


def kube(**fields: Any) -> dict[str, Any]:
    head = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    return head | fields


def own(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration"} | fields


def profile(**fields: Any) -> dict[str, Any]:
    return kube(profiles=[fields])


def args(plugin: str, **fields: Any) -> dict[str, Any]:
    return profile(pluginConfig=[{"name": plugin, "args": fields}])


def problems_of(*documents: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        from_dicts(documents, AVAILABLE, {})
    return [str(problem) for problem in caught.value.problems]


ARGS = "profiles[0].pluginConfig[0].args"
"""Where `args` puts the arguments."""
