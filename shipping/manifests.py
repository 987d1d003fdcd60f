"""``make manifests``: write what is generated from the chart and its values.

The manifests in ``deploy/`` are the chart rendered with its defaults; the chart's schema and the
table in its README come from its values, its rights from the plugins. A test compares all of them
with what is on disk.
"""

import sys
from pathlib import Path

import yaml

from shipping.chart_readme import with_values
from shipping.dashboard import FILE as DASHBOARD
from shipping.dashboard import PAGE as PANELS
from shipping.dashboard import dashboard_text, with_panels
from shipping.helm import CHART, NAMESPACE, PROJECT, Json, objects
from shipping.rights import FILE as RIGHTS
from shipping.rights import rights_text
from shipping.schema import schema_text
from shipping.values import ValuesFile
from shipping.version import with_version

DEPLOY = PROJECT / "deploy"
HEADER = "# Rendered from charts/equipoise by `make manifests`: change the chart, not this file.\n"
OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by")


def generated() -> dict[Path, str]:
    """Every generated file and what it must contain. Renderings use the schema and the rights."""
    values = ValuesFile()
    readme = CHART / "README.md"
    definitions = sorted((CHART / "files" / "crds").glob("*.yaml"))
    return {
        **with_version(),
        CHART / "values.schema.json": schema_text(values),
        RIGHTS: rights_text(),
        readme: with_values(readme.read_text(), values),
        DEPLOY / "equipoise.yaml": installation(),
        DASHBOARD: dashboard_text(),
        PANELS: with_panels(PANELS.read_text()),
        **{DEPLOY / "crds" / each.name: each.read_text() for each in definitions},
    }


def installation() -> str:
    """The namespace and everything in it, without what only Helm cares about."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return HEADER + "---\n".join(map(_plain, [namespace, *objects(None, "--no-hooks")]))


def _plain(obj: Json) -> str:
    template = obj.get("spec", {}).get("template", {})
    for metadata in (obj["metadata"], template.get("metadata", {})):
        for label in OF_HELM:
            metadata.get("labels", {}).pop(label, None)
    return yaml.dump(obj, Dumper=_Dumper, sort_keys=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, and list items indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def main() -> int:
    """Write the files that differ and name them."""
    values = ValuesFile()
    # Helm reads these two when it renders the others.
    (CHART / "values.schema.json").write_text(schema_text(values))
    RIGHTS.write_text(rights_text())
    for path, text in generated().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
