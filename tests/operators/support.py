"""PodGroups on an embedded API server."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from tests.builders import Json
from tests.daemon.support import Cluster
from tests.gangs.support import GroupBuilder

DEFINITION: Json = yaml.safe_load(
    Path(__file__, "../../../charts/equipoise/files/crds/podgroups.yaml").resolve().read_text()
)


class Groups:
    """The PodGroups of a cluster, written and read in-process."""

    def __init__(self, cluster: Cluster) -> None:
        self._registry = cluster.server.registry

    def define(self) -> None:
        """Install the definition."""
        definitions = self._registry.builtin("customresourcedefinitions", "apiextensions.k8s.io")
        self._registry.create(definitions, "", copy.deepcopy(DEFINITION))

    def undefine(self) -> None:
        """Remove the definition, and all groups with it."""
        definitions = self._registry.builtin("customresourcedefinitions", "apiextensions.k8s.io")
        self._registry.delete(definitions, ("", DEFINITION["metadata"]["name"]))

    def create(self, *groups: GroupBuilder) -> None:
        for group in groups:
            self._registry.create(self._resource, "default", group.obj())

    def delete(self, name: str) -> None:
        self._registry.delete(self._resource, ("default", name))

    def get(self, name: str) -> Json:
        return self._registry.get(self._resource, ("default", name)).body

    def status(self, name: str) -> Json:
        status: Json = self.get(name).get("status", {})
        return status

    def set_status(self, name: str, **status: Any) -> None:
        body = {**self.get(name), "status": status}
        self._registry.update(self._resource, ("default", name), body, "status")

    @property
    def _resource(self) -> Any:
        return self._registry.catalog.find("scheduling.x-k8s.io", "v1alpha1", "podgroups")
