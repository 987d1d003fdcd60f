"""Patches that the contract tests do not reach."""

import copy
from typing import Any

import pytest

from sandbox.errors import ApiFailure
from sandbox.patching import JSON, MERGE, MERGE_KEYS, STRATEGIC, copied, patcher
from scheduler.kube.schemas import definitions

POD = {
    "metadata": {"name": "p", "finalizers": ["a"], "labels": {"x": "1"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "1", "ports": [{"containerPort": 80}]},
            {"name": "d"},
        ],
        "tolerations": [{"key": "t"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


def test_a_copy_is_equal_and_shares_nothing() -> None:
    made = copied(POD)
    assert made == POD
    made["spec"]["containers"][0]["ports"].clear()
    made["metadata"]["labels"].clear()
    assert made != POD == copied(POD)


@pytest.mark.parametrize(
    ("kind", "patch", "path", "expected"),
    [
        pytest.param(
            MERGE,
            {"spec": {"containers": [{"name": "d"}]}},
            "spec.containers",
            [{"name": "d"}],
            id="merge replaces lists",
        ),
        pytest.param(
            STRATEGIC,
            {"spec": {"containers": [{"name": "c", "image": "2"}]}},
            "spec.containers",
            [{"name": "c", "image": "2", "ports": [{"containerPort": 80}]}, {"name": "d"}],
            id="strategic merges containers by name",
        ),
        pytest.param(
            STRATEGIC,
            {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 81}]}]}},
            "spec.containers.0.ports",
            [{"containerPort": 80}, {"containerPort": 81}],
            id="strategic merges ports by number",
        ),
        pytest.param(
            STRATEGIC,
            {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}},
            "spec.containers",
            [{"name": "d"}],
            id="strategic deletes an item",
        ),
        pytest.param(
            STRATEGIC,
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "e"}]}},
            "spec.containers",
            [{"name": "e"}],
            id="strategic replaces a keyed list",
        ),
        pytest.param(
            STRATEGIC,
            {"spec": {"tolerations": [{"key": "u"}]}},
            "spec.tolerations",
            [{"key": "u"}],
            id="strategic replaces lists without a key",
        ),
        pytest.param(
            STRATEGIC,
            {"metadata": {"finalizers": ["b", "a"]}},
            "metadata.finalizers",
            ["a", "b"],
            id="strategic adds finalizers",
        ),
        pytest.param(
            STRATEGIC,
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            "metadata.finalizers",
            [],
            id="strategic removes finalizers",
        ),
        pytest.param(
            STRATEGIC,
            {"metadata": {"labels": {"$patch": "replace", "y": "2"}}},
            "metadata.labels",
            {"y": "2"},
            id="strategic replaces an object",
        ),
        pytest.param(
            STRATEGIC,
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "nfs"], "nfs": {}}]}},
            "spec.volumes",
            [{"name": "v", "nfs": {}}],
            id="strategic retains only the named keys",
        ),
        pytest.param(
            JSON,
            [{"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/y"}],
            "metadata.labels",
            {"y": "1"},
            id="json moves",
        ),
        pytest.param(
            JSON,
            [{"op": "add", "path": "/spec/containers/-", "value": {"name": "e"}}],
            "spec.containers.2",
            {"name": "e"},
            id="json appends",
        ),
        pytest.param(
            JSON,
            [{"op": "copy", "from": "/spec/containers/1", "path": "/spec/containers/0"}],
            "spec.containers.0",
            {"name": "d"},
            id="json copies",
        ),
    ],
)
def test_patches(kind: str, patch: Any, path: str, expected: Any) -> None:
    before = copy.deepcopy(POD)
    found: Any = patcher(kind)(POD, patch)
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else found[step]
    assert found == expected
    assert before == POD


@pytest.mark.parametrize(
    ("kind", "patch", "code"),
    [
        (STRATEGIC, [], 400),
        (STRATEGIC, {"spec": {"containers": [{"image": "nameless"}]}}, 400),
        (JSON, {}, 400),
        (JSON, [{"op": "remove", "path": "/spec/nothing"}], 422),
        (JSON, [{"op": "replace", "path": "/spec/containers/7", "value": 1}], 422),
        (JSON, [{"op": "jump", "path": "/spec"}], 422),
    ],
)
def test_patches_that_do_not_apply(kind: str, patch: Any, code: int) -> None:
    with pytest.raises(ApiFailure) as raised:
        patcher(kind)(POD, patch)
    assert raised.value.code == code


def test_lists_merge_by_the_keys_of_the_schemas() -> None:
    """A field name means the same in all kinds, but for ports; so says the real server's schema."""
    found: dict[str, set[str]] = {}
    for schema in definitions().values():
        for name, property_ in (schema.get("properties") or {}).items():
            if key := property_.get("x-kubernetes-patch-merge-key"):
                found.setdefault(name, set()).add(key)
    ambiguous = {name for name, keys in found.items() if len(keys) > 1}
    assert ambiguous == {"ports"}
    known = {name: key for name, (key, *_) in found.items() if name not in ambiguous}
    assert {name: MERGE_KEYS.get(name) for name in known} == known
