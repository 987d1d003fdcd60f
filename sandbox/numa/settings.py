"""How a kubelet and the agent that publishes its cells are set up."""

from __future__ import annotations

from typing import Literal

import msgspec

Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
Scope = Literal["container", "pod"]
Method = Literal["all", "with-exclusive-resources"]


class KubeletSettings(msgspec.Struct, frozen=True):
    """The kubelet's configuration, by the names it has there."""

    policy: Policy = "single-numa-node"
    scope: Scope = "container"
    cpu_manager: bool = True
    """The static policy; without it no container gets exclusive CPUs."""
    memory_manager: bool = True
    """The Static policy."""
    lists_finished: bool = False
    """Whether finished pods are listed until they are deleted, as kubelets before 1.34 do."""


class PublisherSettings(msgspec.Struct, frozen=True):
    """What the publishing agent says besides the cells."""

    fingerprint: Literal["attribute", "annotation", "none"] = "attribute"
    method: Method = "all"
    """Which pods the fingerprint is made of; an annotation always means all."""
