"""What can be read from files, and what is said about files that cannot."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.manifests import ManifestError, read
from scheduler.cli.snapshots import pack
from tests.builders import make_node, make_pod
from tests.cli.support import workload, write


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [body["metadata"]["name"] for body in objects]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "objects.yaml"


def test_documents_and_lists_come_in_order(file: Path) -> None:
    a, b, c = (make_node(name).obj() for name in "abc")
    inner = {"kind": "List", "items": [b]}
    assert names(read([write(file, a, {"kind": "List", "items": [inner, c]})])) == ["a", "b", "c"]


def test_items_of_a_typed_list_have_its_kind(file: Path) -> None:
    item = {"metadata": {"name": "a"}}
    [node] = read([write(file, {"kind": "NodeList", "apiVersion": "v1", "items": [item]})])
    assert node["kind"] == "Node"


def test_a_list_without_items_is_empty(file: Path) -> None:
    empty = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    assert names(read([write(file, {**empty, "items": None}, empty, make_node("a").obj())])) == [
        "a"
    ]


def test_aliases_do_not_multiply_without_end(file: Path) -> None:
    lines = ["kind: Other", "metadata: {name: a}", "x0: &x0 [a, a, a, a, a, a, a, a, a, a]"]
    lines += [f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]" for i in range(1, 12)]
    file.write_text("\n".join(lines))
    with pytest.raises(ManifestError, match="it is too large after expanding YAML aliases"):
        read([str(file)])


def test_a_directory_gives_its_manifests_by_name_and_no_others(tmp_path: Path) -> None:
    write(tmp_path / "2.yaml", make_node("b").obj())
    write(tmp_path / "1.yml", make_node("a").obj())
    (tmp_path / "3.json").write_text(json.dumps(make_node("c").obj()))
    (tmp_path / "README.md").write_text("no: manifest: at all")
    (tmp_path / "deeper.yaml").mkdir()
    assert names(read([str(tmp_path)])) == ["a", "b", "c"]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO(json.dumps(make_node("a").obj()).encode()))
    monkeypatch.setattr(sys, "stdin", piped)
    assert names(read(["-"])) == ["a"]


def test_yaml_is_read_as_kubernetes_reads_it(file: Path) -> None:
    file.write_text(
        "kind: Pod\n"
        "metadata: {name: a, creationTimestamp: 2026-01-01T00:00:00Z, annotations: {x: =}}\n"
        "spec: null\n"
        "---\n"
        "# an empty document\n"
        "---\n"
        "{kind: Node, metadata: {name: b}}\n"
    )
    pod, node = read([str(file)])
    assert pod["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert pod["metadata"]["annotations"] == {"x": "="}
    assert "spec" not in pod
    assert node["kind"] == "Node"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("kind: Pod\nspec: [\n}", "line 3, column 1: ", id="bad YAML tells the line"),
        pytest.param('{"kind": "Pod",\n "x": ]', "line 2, column 7: ", id="so does bad JSON"),
        pytest.param(
            "kind: Pod\nmetadata: {name: a}\nspec:\n  priority: 1\n  priority: 2",
            'line 5, column 3: key "priority" is given twice',
            id="a key twice",
        ),
        pytest.param("a: \x00", "not YAML: ", id="control characters"),
        pytest.param("[" * 5000 + "]" * 5000, "nested too deeply", id="endless nesting"),
        pytest.param("[" * 100_000, "nested too deeply", id="a C stack of lists"),
        pytest.param("- " * 100_000, "nested too deeply", id="the same in blocks"),
        pytest.param("? " * 100_000, "nested too deeply", id="keys of keys"),
        pytest.param("", "contains no objects", id="nothing"),
        pytest.param("just words", "document 1: expected an object", id="a text"),
        pytest.param(
            "{kind: Deployment, metadata: {name: a}, spec: {selector: {matchLabels: [x]}}}",
            "Deployment a: spec.selector.matchLabels: expected an object, got a list",
            id="a selector of a workload",
        ),
        pytest.param(
            "{kind: Node, metadata: {name: a}}\n---\n- 1",
            "document 2: expected an object",
            id="a list",
        ),
        pytest.param("metadata: {}", "document 1: kind: expected the kind", id="no kind"),
        pytest.param(
            "kind: List\nitems: 7", "document 1: items: expected a list, got 7", id="odd items"
        ),
        pytest.param(
            "kind: List\nitems: [7]", "document 1: items[0]: expected an object", id="odd item"
        ),
        pytest.param("kind: Pod", "Pod: metadata.name: expected a name", id="no metadata"),
        pytest.param(
            "{kind: Pod, metadata: {name: 7}}",
            "Pod: metadata.name: expected a name, got 7",
            id="a number as name",
        ),
        pytest.param(
            "{kind: Foo, metadata: {name: a, namespace: [x]}}",
            "metadata.namespace: Expected `str`",
            id="odd namespace of any kind",
        ),
        pytest.param(
            "{kind: Pod, metadata: {name: a, namespace: n}, spec: {containers: [{image: 1}]}}",
            "Pod n/a: spec.containers[0].image: expected a text, got 1",
            id="a field of the wrong type",
        ),
        pytest.param(
            "{kind: Deployment, metadata: {name: a}, spec: {replicas: 2000000000}}",
            "Deployment a: spec.replicas: Expected `int` <= 100000",
            id="absurd numbers",
        ),
        pytest.param(
            "{kind: Node, metadata: {name: a}}\n---\n{kind: Node, metadata: {name: a}}",
            "Node a is given twice",
            id="twice",
        ),
    ],
)
def test_errors_name_the_file_and_the_place(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        read([str(file)])
    assert str(caught.value).startswith(f"{file}: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_object_in_two_files_names_both(tmp_path: Path) -> None:
    one, two = (write(tmp_path / f"{n}.yaml", make_pod("a").obj()) for n in "12")
    with pytest.raises(ManifestError) as caught:
        read([one, two])
    assert str(caught.value) == f"{two}: Pod default/a is given in {one} as well"


def test_a_field_inside_a_template_is_found(file: Path) -> None:
    job = workload("Job", "j")
    job["spec"]["template"]["spec"]["tolerations"] = {"key": "x"}
    with pytest.raises(ManifestError, match=r"Job shop/j: spec\.template\.spec\.tolerations: "):
        read([write(file, job)])


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"absent\.yaml: No such file or directory"):
        read([str(tmp_path / "absent.yaml")])
    with pytest.raises(ManifestError, match=r"no \.yaml, \.yml, \.json, .* files"):
        read([str(tmp_path)])


def test_bytes_that_are_no_text(file: Path) -> None:
    file.write_bytes(b"kind: \xff")
    with pytest.raises(ManifestError, match="not YAML: 'utf-8' codec"):
        read([str(file)])


def misspelt(name: str) -> dict[str, Any]:
    pod = make_pod(name).obj()
    pod["spec"]["containers"][0]["resources"] = {"request": {"cpu": 1}}
    return pod


UNKNOWN = "spec.containers[0].resources.request: unknown field (did you mean requests?)"


def test_all_misspelt_fields_are_named_at_once_and_equal_ones_together(file: Path) -> None:
    group: dict[str, Any] = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    group |= {"metadata": {"name": "g"}, "spec": {"minMembers": 2}}
    kind = {"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": {"name": "d"}, "spek": {}}
    with pytest.raises(ManifestError) as caught:
        read([write(file, kind, misspelt("a"), misspelt("b"), group)])
    assert str(caught.value).splitlines() == [
        f"{file}: Deploymnt d: kind: apps/v1 has no Deploymnt (did you mean Deployment?)",
        f"{file}: Pod default/a: {UNKNOWN} (and in 1 more)",
        f"{file}: PodGroup g: spec.minMembers: unknown field (did you mean minMember?)",
    ]


def test_a_field_like_no_other_is_an_error_that_names_the_way_out(file: Path) -> None:
    pod = make_pod("a").obj()
    pod["spec"]["entangled"] = True
    with pytest.raises(ManifestError) as caught:
        read([write(file, pod)])
    first, way_out = str(caught.value).splitlines()
    assert first == f"{file}: Pod default/a: spec.entangled: unknown field"
    assert "--lenient" in way_out


def test_a_snapshot_that_was_edited_is_checked_as_well(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json.zst"
    file.write_bytes(pack([make_node("n").obj(), misspelt("a")]))
    with pytest.raises(ManifestError, match=r"Pod default/a: spec\.containers\[0\]\.resources"):
        read([str(file)])


def test_fields_of_lists_are_checked(file: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        read([write(file, {"kind": "List", "item": [make_node("a").obj()]})])
    expected = f"{file}: document 1, List: item: unknown field (did you mean items?)"
    assert str(caught.value) == expected


def test_the_lenient_are_told_and_go_on(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = misspelt("a")
    pod["spec"]["hostAliases"] = "none"
    assert names(read([write(file, pod)], lenient=True)) == ["a"]
    said = capsys.readouterr().err
    assert f"{file}: Pod default/a: {UNKNOWN}, it has no effect\n" in said
    assert 'spec.hostAliases: expected a list, got the text "none"\n' in said


def unmeasurable() -> dict[str, Any]:
    pod = make_pod("a").obj()
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1x", "memory": "lots"}}
    return pod


def test_quantities_that_cannot_be_read_are_named_by_path(file: Path) -> None:
    claim: dict[str, Any] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claim |= {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "-5Gi"}}}}
    node: dict[str, Any] = {"kind": "Node", "metadata": {"name": "n"}}
    node["status"] = {"allocatable": {"cpu": "4 cores"}}
    with pytest.raises(ManifestError) as caught:
        read([write(file, unmeasurable(), claim, node)])
    requests = "Pod default/a: spec.containers[0].resources.requests"
    wrong = "is not a quantity: expected a number and a suffix"
    assert str(caught.value).splitlines() == [
        f"{file}: {requests}.cpu: '1x' {wrong}",
        f"{file}: {requests}.memory: 'lots' {wrong}",
        f"{file}: PersistentVolumeClaim c: spec.resources.requests.storage: "
        "must not be negative, got -5Gi",
        f"{file}: Node n: status.allocatable.cpu: '4 cores' {wrong}",
    ]


def test_the_lenient_are_told_of_quantities(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert names(read([write(file, unmeasurable())], lenient=True)) == ["a"]
    said = capsys.readouterr().err
    assert "requests.cpu: '1x' is not a quantity" in said
    assert "requests.memory: 'lots' is not a quantity" in said


def test_what_cannot_be_decoded_is_an_error_for_the_lenient_too(file: Path) -> None:
    pod = make_pod("a").obj()
    pod["spec"]["tolerations"] = "all"
    with pytest.raises(ManifestError, match="tolerations: expected a list, got the text"):
        read([write(file, pod)], lenient=True)


def test_a_version_without_a_schema_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = {"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "d"}, "x": 1}
    assert names(read([write(file, old)])) == ["d"]
    assert "no schema of apps/v1beta1 Deployment here" in capsys.readouterr().err
