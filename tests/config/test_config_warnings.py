"""Files that load but say something in vain, or at a risk, are answered with warnings."""

from typing import Any

import pytest

from scheduler.config.loading import from_dicts

from .support import AVAILABLE, kube, profile

WARNINGS = {
    "a queue sort that is never asked": (
        profile(plugins={"queueSort": {"enabled": [{"name": "OtherSort"}]}}),
        ["profiles[0].plugins.queueSort"],
    ),
    "parallelism": (kube(parallelism=8), ["parallelism"]),
    "the lease of kube-scheduler": (
        kube(leaderElection={"resourceName": "kube-scheduler"}),
        ["leaderElection.resourceName"],
    ),
    "protobuf": (
        kube(clientConnection={"contentType": "application/vnd.kubernetes.protobuf"}),
        ["clientConnection.contentType"],
    ),
    "both kinds of profiling": (
        kube(enableProfiling=True, enableContentionProfiling=True),
        ["enableProfiling", "enableContentionProfiling"],
    ),
    "sampling of nodes": (
        kube(percentageOfNodesToScore=50, profiles=[{"percentageOfNodesToScore": 5}]),
        ["percentageOfNodesToScore", "profiles[0].percentageOfNodesToScore"],
    ),
    "a cold standby": (kube(delayCacheUntilActive=True), ["delayCacheUntilActive"]),
    "the name of kube-scheduler": (
        profile(schedulerName="default-scheduler"),
        ["profiles[0].schedulerName"],
    ),
    "plugins that are not built": (
        profile(
            plugins={"multiPoint": {"enabled": [{"name": "VolumeZone"}]}},
            pluginConfig=[{"name": "InterPodAffinity"}],
        ),
        ["profiles[0].plugins.multiPoint.enabled[0].name", "profiles[0].pluginConfig[0].name"],
    ),
    "a plugin with nothing to do at a point where kube-scheduler gives it work": (
        profile(plugins={"preFilter": {"enabled": [{"name": "NodeResourcesFit"}]}}),
        ["profiles[0].plugins.preFilter.enabled[0].name"],
    ),
    "an unknown plugin that is disabled": (
        profile(plugins={"score": {"disabled": [{"name": "*"}, {"name": "NodeNam"}]}}),
        ["profiles[0].plugins.score.disabled[1].name"],
    ),
    "placements": (
        profile(plugins={"placementScore": {"enabled": [{"name": "PodGroupPodsCount"}]}}),
        ["profiles[0].plugins.placementScore"],
    ),
    "nothing": (profile(plugins={"score": {"disabled": [{"name": "VolumeZone"}]}}), []),
}


@pytest.mark.parametrize(
    ("document", "paths"), [pytest.param(*case, id=name) for name, case in WARNINGS.items()]
)
def test_warnings(document: dict[str, Any], paths: list[str]) -> None:
    assert [w.path for w in from_dicts([document], AVAILABLE, {}).warnings] == paths
