"""The rights that the chart grants, and whether any request was denied."""

import re
from functools import cache

import yaml

from e2e.harness.client import ApiClient
from e2e.harness.objects import Json
from shipping.helm import CHART, NAMESPACE, objects

_DENIED = re.compile(
    r'^authorization_attempts_total\{result="(?:denied|no-opinion)"\} (\S+)$', re.M
)
_ACCESS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


@cache
def account_and_roles() -> list[Json]:
    """The program's namespace, service account and roles, with the rights of every plugin."""
    plugins = yaml.safe_load((CHART / "files" / "rights.yaml").read_text())["plugins"]
    extra = [{"name": name} for name, plugin in plugins.items() if not plugin["default"]]
    rendered = objects({"plugins": {"enabled": extra}})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return [namespace, *(each for each in rendered if each["kind"] in _ACCESS)]


async def denials(api: ApiClient) -> int:
    """How many requests the API server has denied since it started."""
    return sum(int(float(count)) for count in _DENIED.findall(await api.text("/metrics")))
