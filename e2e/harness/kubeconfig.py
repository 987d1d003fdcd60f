"""Writing the kubeconfig files that control-plane processes and the scheduler are started with."""

import json
from pathlib import Path
from typing import Any

from e2e.harness.certificates import KeyPair


def write_kubeconfig(path: Path, server: str, authority: Path, user: dict[str, Any]) -> Path:
    """One cluster, one user, one context; JSON, which every reader of YAML reads.

    A file that is there is replaced in one step: a program that was just started may be reading it,
    and ends if it finds it empty.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "e2e", "cluster": {"server": server, "certificate-authority": str(authority)}}
        ],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "user"}}],
        "current-context": "e2e",
    }
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(document, indent=2))
    new.chmod(0o600)
    new.replace(path)
    return path


def certificate_user(pair: KeyPair) -> dict[str, Any]:
    """A user who authenticates with a client certificate."""
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}


def token_user(token: str) -> dict[str, Any]:
    """A user who authenticates with a bearer token."""
    return {"token": token}
