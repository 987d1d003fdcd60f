"""Names of the API for devices, as it spells them."""

from __future__ import annotations

PLUGIN = "DynamicResources"

FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of claims that a scheduler made for extended resources."""
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""With the name of a class behind it, the resource that this class always serves."""
SPECIAL = "<extended-resources>"
"""The name of a claim for extended resources before it is written: no valid name of a claim."""
