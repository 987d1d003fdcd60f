"""``python -m shipping.custom_schemas``: the schemas of custom resources, from their CRDs.

Manifests of PodGroups and NodeResourceTopologies are checked for misspelt fields where no CRD is
at hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FILE = ROOT / "scheduler" / "kube" / "custom-schemas.json"
CRDS = ROOT / "deploy" / "crds"


def custom_schemas() -> dict[str, Any]:
    """The schema of each served version, by ``group/version/Kind``."""
    found = {}
    for file in sorted(CRDS.glob("*.yaml")):
        spec = yaml.safe_load(file.read_text())["spec"]
        for version in spec["versions"]:
            if version["served"]:
                name = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
                found[name] = _without_words(version["schema"]["openAPIV3Schema"])
    return found


def _without_words(schema: Any) -> Any:
    """A schema without descriptions; a field of that name stays."""
    if isinstance(schema, list):
        return [_without_words(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_words(value)
        for key, value in schema.items()
        if key != "description" or not isinstance(value, str)
    }


def rendered() -> str:
    """The content of the file."""
    return json.dumps(custom_schemas(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(rendered())
    print(f"wrote {FILE.name}")
