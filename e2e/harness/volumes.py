"""A pod's volumes as directories of this machine, filled as a kubelet fills them."""

from collections.abc import Callable
from pathlib import Path

from e2e.harness.client import ApiClient
from e2e.harness.objects import Json

TOKEN_SECONDS = 3600


async def mount(api: ApiClient, pod: Json, root: Path, relocated: Callable[[str], str]) -> None:
    """Make what the one container of the pod mounts, below ``root``; files name each other."""
    (container,) = pod["spec"]["containers"]
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    for each in container["volumeMounts"]:
        directory = root / each["mountPath"].removeprefix("/")
        directory.mkdir(parents=True)
        files = await _content(api, pod, volumes[each["name"]])
        for name, text in files.items():
            (directory / name).write_text(relocated(text))


async def _content(api: ApiClient, pod: Json, volume: Json) -> dict[str, str]:
    if "emptyDir" in volume:
        return {}
    if "configMap" in volume:
        return await _config_map(api, pod, volume["configMap"])
    files: dict[str, str] = {}
    for source in volume["projected"]["sources"]:
        if "configMap" in source:
            files |= await _config_map(api, pod, source["configMap"])
        elif "serviceAccountToken" in source:
            files[source["serviceAccountToken"]["path"]] = await _token(api, pod)
        else:
            (item,) = source["downwardAPI"]["items"]
            files[item["path"]] = pod["metadata"][item["fieldRef"]["fieldPath"].split(".")[1]]
    return files


async def _config_map(api: ApiClient, pod: Json, source: Json) -> dict[str, str]:
    namespace = pod["metadata"]["namespace"]
    data: dict[str, str] = (
        await api.get(f"/api/v1/namespaces/{namespace}/configmaps/{source['name']}")
    )["data"]
    return data


async def _token(api: ApiClient, pod: Json) -> str:
    # Not bound to the pod: kwok removes a pod at once, and its process has yet to end.
    namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    answer = await api.create(path, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
    return str(answer["status"]["token"])
