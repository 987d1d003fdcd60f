"""How long a search for devices may take is each profile's own."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.simulation import explain
from tests.builders import make_node
from tests.devices.support import boards, profile

PROFILES = {"hasty": "500us", "patient": "10s"}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": name,
            "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": timeout}}],
        }
        for name, timeout in PROFILES.items()
    ],
}


@pytest.mark.parametrize(("name", "fit"), [("hasty", []), ("patient", ["n1"])])
def test_a_profile_gives_up_when_its_own_time_is_over(name: str, fit: list[str]) -> None:
    requests = [profile(f"e{i}", "eighth", count=3) for i in range(10)]
    slices = [{"kind": "ResourceSlice", **msgspec.to_builtins(each)} for each in boards("n1", 8)]
    objects = [
        make_node("n1").obj(),
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        *slices,
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"devices": {"requests": requests}},
        },
    ]
    entries = [{"name": "c", "resourceClaimName": "c"}]
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "schedulerName": name,
            "containers": [{"name": "main", "image": "i"}],
            "resourceClaims": entries,
        },
    }
    found = explain(objects, pod, CONFIG)
    assert found["fit"] == fit
    if not fit:
        assert "timed out trying to allocate devices" in found["message"]
