"""The part of kubernetes_asyncio that reads configuration, without the rest of it.

Importing the package imports all of its API: seven hundred classes, 35 MiB for the life of the
process, a third of a second at its start. The modules that read kubeconfig files and service
accounts need one class of it. So they are imported as if the package consisted of them alone, and
afterwards nothing of it is left in `sys.modules`: whoever imports it later gets all of it.
"""

import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "kubernetes_asyncio"


@dataclass(frozen=True, slots=True)
class Library:
    """What we use of it; it ships no types."""

    Configuration: Any
    load_kube_config: Any
    InClusterConfigLoader: Any


@cache
def library() -> Library:
    """Import it when a cluster is looked for, and not before."""
    if PACKAGE in sys.modules:  # somebody has paid for it already
        return _imported()
    try:
        _pretend_small()
        return _imported()
    except (ImportError, AttributeError):  # a release that is laid out in another way
        _forget()
        return _imported()
    finally:
        _forget()


def _imported() -> Library:
    from kubernetes_asyncio.client.configuration import Configuration
    from kubernetes_asyncio.config import load_kube_config
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    return Library(Configuration, load_kube_config, InClusterConfigLoader)


def _pretend_small() -> None:
    """Put empty packages in place of those whose import would bring everything in."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(PACKAGE)
    root = Path(found.origin).parent
    for name, directory in ((PACKAGE, root), (f"{PACKAGE}.client", root / "client")):
        package = ModuleType(name)
        package.__path__ = [str(directory)]
        sys.modules[name] = package
    client = sys.modules[f"{PACKAGE}.client"]
    configuration = import_module(f"{PACKAGE}.client.configuration")
    # The second is only named by functions that make clients, which nobody calls.
    vars(client).update(Configuration=configuration.Configuration, ApiClient=None)


def _forget() -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
