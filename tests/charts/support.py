"""Looking into rendered objects."""

from typing import Any

import pytest
import yaml

from e2e.controlplane.binaries import locate
from shipping.helm import HelmError, objects

Json = dict[str, Any]


def _missing_helm() -> str:
    """Why there is no helm; empty if there is."""
    try:
        locate("helm")
    except FileNotFoundError as missing:
        return str(missing)
    return ""


needs_helm = pytest.mark.skipif(bool(_missing_helm()), reason=_missing_helm())
"""For tests that render the chart; ``make controlplane`` builds helm."""


class Rendered:
    """What the chart makes of some values."""

    def __init__(self, values: Json | None = None, release: str = "equipoise") -> None:
        self.objects = objects(values, release=release)

    @property
    def names(self) -> set[tuple[str, str]]:
        """Kind and name of all objects."""
        return {(each["kind"], each["metadata"]["name"]) for each in self.objects}

    def the(self, kind: str, name: str = "equipoise") -> Json:
        """The object of that kind and name; there must be exactly one."""
        (found,) = (
            each
            for each in self.objects
            if each["kind"] == kind and each["metadata"]["name"] == name
        )
        return found

    @property
    def pod(self) -> Json:
        """The spec of the replicas."""
        spec: Json = self.the("Deployment")["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Json:
        """Their one container."""
        (container,) = self.pod["containers"]
        found: Json = container
        return found

    @property
    def checksum(self) -> str:
        """What makes the replicas restart when the configuration changes."""
        metadata = self.the("Deployment")["spec"]["template"]["metadata"]
        return str(metadata["annotations"]["checksum/config"])

    @property
    def configuration(self) -> list[Json]:
        """The documents that the program would read."""
        return list(yaml.safe_load_all(self.the("ConfigMap")["data"]["config.yaml"]))


def refusal(values: Json) -> str:
    """What helm says against these values."""
    with pytest.raises(HelmError) as refused:
        objects(values)
    return str(refused.value)
