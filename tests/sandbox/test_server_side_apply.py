"""Field sets, and what an apply does that the contract tests do not show."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import ApiFailure
from sandbox.field_sets import from_fields_v1, leaves, shown, to_fields_v1
from sandbox.registry import Registry, WriteOptions
from sandbox.server_side_apply import CONTENT_TYPE

STEPS = st.sampled_from(["f:a", "f:b", "f:b.c", 'k:{"name":"x"}', "v:1"])
PATHS = st.sets(st.lists(STEPS, min_size=1, max_size=4).map(tuple), max_size=12)


@given(PATHS)
def test_field_sets_are_read_as_they_are_written(paths: set[tuple[str, ...]]) -> None:
    assert from_fields_v1(to_fields_v1(paths)) == paths


def test_paths_are_shown_as_kubectl_shows_them() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"web"}', "f:args", 'v:"x"')
    assert shown(path) == '.spec.containers[name="web"].args[="x"]'


def test_lists_without_keys_are_one_leaf() -> None:
    assert leaves({}, {"a": [1, 2], "b": {}}) == {("f:a",): [1, 2], ("f:b",): {}}


@pytest.mark.parametrize("fields", [None, 5, [], {"f:a": 3}])
def test_nonsense_in_managed_fields_is_no_error(fields: Any) -> None:
    assert isinstance(from_fields_v1(fields), set)


def configuration(**data: str) -> dict[str, Any]:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    return {**head, "data": dict(data)}


def apply(registry: Registry, body: Any, manager: str, *, force: bool = False) -> Any:
    options = WriteOptions(manager=manager, tracked=True, force=force)
    resource = registry.builtin("configmaps")
    return registry.patch(resource, ("default", "c"), CONTENT_TYPE, body, options=options).body


def test_what_was_there_before_the_first_apply_has_an_owner() -> None:
    registry = Registry()
    registry.create(registry.builtin("configmaps"), "default", configuration(a="1"))
    with pytest.raises(ApiFailure, match=r'with "before-first-apply" using v1: \.data\.a'):
        apply(registry, configuration(a="2"), "one")
    assert apply(registry, configuration(a="2"), "one", force=True)["data"] == {"a": "2"}


def test_an_apply_that_changes_nothing_is_no_write() -> None:
    registry = Registry()
    apply(registry, configuration(a="1"), "one")
    revision = registry.store.revision
    apply(registry, configuration(a="1"), "one")
    assert registry.store.revision == revision


def test_a_field_goes_when_its_last_owner_drops_it() -> None:
    registry = Registry()
    apply(registry, configuration(a="1", b="1"), "one")
    apply(registry, configuration(a="1"), "two")
    assert apply(registry, configuration(), "one")["data"] == {"a": "1"}
    assert "data" not in apply(registry, configuration(), "two")


def test_objects_that_nobody_names_a_manager_for_are_not_tracked() -> None:
    registry = Registry()
    config_maps = registry.builtin("configmaps")
    created = registry.create(config_maps, "default", configuration(a="1"))
    assert "managedFields" not in created.body["metadata"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("text", "not an object"),
        ({"apiVersion": "v1", "kind": "Secret", "metadata": {}}, "kind"),
        ({**configuration(), "metadata": {"name": "other"}}, "name"),
        ({**configuration(), "metadata": {"name": "c", "managedFields": [{}]}}, "managedFields"),
    ],
)
def test_a_configuration_is_of_the_object_it_is_sent_to(body: Any, told: str) -> None:
    with pytest.raises(ApiFailure, match=told) as refused:
        apply(Registry(), body, "one")
    assert refused.value.code == 400
