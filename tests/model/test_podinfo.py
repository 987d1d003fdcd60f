"""What is derived from a pod, when it is kept, and how a bad field is reported."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.model.limits import PodLimits
from scheduler.model.podinfo import _DERIVED, HostPort, PodInfo, with_tag
from tests.builders import PodBuilder, constraint, make_pod, requirement, term

REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("pod", "faults"),
    [
        pytest.param(make_pod("p").cpu("1"), (), id="none"),
        pytest.param(make_pod("p").no_containers(), ("spec.containers: missing",), id="empty"),
        pytest.param(
            make_pod("p").cpu("-1"),
            ("spec.containers[0].resources.requests[cpu]: must not be negative: '-1'",),
            id="a fault in what two sums need is told once",
        ),
        pytest.param(
            make_pod("p").required(term(requirement("a", "Exists")), term(requirement("", "In"))),
            (f"{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].key: missing",),
            id="required affinity",
        ),
        pytest.param(
            make_pod("p").preferred(1, term(requirement("a", "In"))),
            (
                f"{PREFERRED}[0].preference.matchExpressions[0].values: "
                "must not be empty for operator In",
            ),
            id="preferred affinity",
        ),
    ],
)
def test_faults_name_their_fields(pod: PodBuilder, faults: tuple[str, ...]) -> None:
    assert pod.info().faults == faults


def test_all_faults_are_told() -> None:
    info = make_pod("p").cpu("x").required(term(requirement("a", "Near"))).info()
    assert [fault.split(":")[0] for fault in info.faults] == [
        "spec.containers[0].resources.requests[cpu]",
        f"{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
    ]


def test_a_bad_field_never_raises_and_counts_as_absent() -> None:
    info = make_pod("p").cpu("x").on("n").info()
    assert info.requests == {}
    assert info.nonzero == (0, 0)


def test_a_status_update_keeps_what_was_derived() -> None:
    info = make_pod("p").cpu("1").info()
    requests = info.requests
    renewed = info.renewed(make_pod("p").cpu("1").phase("Running").version(2).struct())
    assert renewed.pod.status.phase == "Running"
    assert renewed.requests is requests


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(make_pod("p").pod_level({"cpu": "2"}), id="spec"),
        pytest.param(
            make_pod("p").pod_level({"cpu": "1"}).status(resources={"requests": {"cpu": "2"}}),
            id="what runs",
        ),
        pytest.param(
            make_pod("p")
            .pod_level({"cpu": "1"})
            .status(resources={"requests": {}}, allocatedResources={"cpu": "2"}),
            id="what is allocated",
        ),
    ],
)
def test_a_resize_is_seen(newer: PodBuilder) -> None:
    info = make_pod("p").pod_level({"cpu": "1"}).status(resources={"requests": {}}).info()
    assert info.requests == {"cpu": 1000}
    assert info.renewed(newer.struct()).requests == {"cpu": 2000}


def test_a_pod_that_was_bound_keeps_what_was_derived() -> None:
    waiting = make_pod("p").cpu("1").info()
    affinity, requests = waiting.affinity, waiting.requests
    bound = waiting.renewed(make_pod("p").cpu("1").on("n1").version(2).struct())
    assert bound.node_name == "n1"
    assert bound.requests is requests
    assert bound.affinity is affinity


def test_labels_that_came_with_the_binding_cost_nothing_but_what_reads_labels() -> None:
    waiting = make_pod("p").cpu("1").info()
    requests = waiting.requests
    bound = waiting.renewed(make_pod("p").cpu("1").on("n1").label(zone="a").struct())
    assert bound.requests is requests
    assert bound.takes_like(waiting.bound_to("n1"))


def test_terms_that_read_the_labels_are_read_again() -> None:
    term = {"topologyKey": "zone", "matchLabelKeys": ["version"], "labelSelector": {}}
    old = make_pod("p").label(version="1").apart(term).info()
    assert len(old.affinity.anti_required) == 1
    new = old.renewed(make_pod("p").label(version="2").apart(term).struct())
    assert new.affinity == make_pod("p").label(version="2").apart(term).info().affinity
    assert new.affinity != old.affinity


TOO_MANY = "a, and more labels than a pod may have"
LIMITS = PodLimits(labels=2)

STEPS = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(sorted(_DERIVED))),
    st.tuples(st.just("label"), st.sampled_from(("a", "b", TOO_MANY))),
    st.tuples(st.just("size"), st.sampled_from(("1", "2", "x"))),
    st.tuples(st.just("twin"), st.sampled_from(("of us", "of it"))),
    st.tuples(st.just("bind"), st.just("n1")),
)


@given(
    bad=st.sets(st.sampled_from(("cpu", "required", "preferred", "apart", "spread"))),
    steps=st.lists(STEPS, max_size=8),
)
@example(bad=set(), steps=[("twin", "of it"), ("label", "b"), ("twin", "of it")])
@example(bad={"cpu"}, steps=[("twin", "of us"), ("label", "b")])
@example(bad=set(), steps=[("label", TOO_MANY), ("read", "node_matcher"), ("label", "a")])
def test_what_is_derived_does_not_depend_on_what_was_before(
    bad: set[str], steps: list[tuple[str, str]]
) -> None:
    """Whatever was read, shared with twins, labelled or resized: as of a pod that is new."""
    label, size, node = "a", "", ""

    def now() -> PodInfo:
        pod = _pod_with(bad, label[0], size, node)
        if label == TOO_MANY:
            pod.label(b="x", c="x", d="x")
        return PodInfo(pod.struct(), LIMITS)

    info = now()
    for step, value in steps:
        if step == "read":
            getattr(info, value)
        elif step == "twin" and not size:
            twin = now()
            twin.adopt(info)
            _same(twin, now())
            info = twin if value == "of us" else info
        else:
            label = value if step == "label" else label
            size = value if step == "size" else size
            node = value if step == "bind" else node
            info = info.renewed(now().pod)
    _same(info, now())


def _same(info: PodInfo, fresh: PodInfo) -> None:
    for name in sorted(_DERIVED):
        assert getattr(info, name) == getattr(fresh, name), name


def _pod_with(bad: set[str], label: str, size: str, node: str) -> PodBuilder:
    """A pod that has some fields that cannot be understood, and some that read its labels."""
    spread = constraint("zone", matchLabelKeys=["version"], labelSelector={})
    apart = {"topologyKey": "zone", "matchLabelKeys": ["version"], "labelSelector": {}}
    pod = make_pod("p").label(version=label).cpu("x" if "cpu" in bad else "1")
    pod.required(term(requirement("a", "In" if "required" in bad else "Exists")))
    pod.preferred(1, term(requirement("a", "In" if "preferred" in bad else "Exists")))
    pod.apart(apart | ({"labelSelector": _NO_SELECTOR} if "apart" in bad else {}))
    pod.spread(spread | ({"labelSelector": _NO_SELECTOR} if "spread" in bad else {}))
    if size:
        pod.status(resources={"requests": {"cpu": size}})
    return pod.on(node) if node else pod


_NO_SELECTOR = {"matchExpressions": [{"key": "a", "operator": "NotIn"}]}


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(make_pod("p").on("n2"), id="another node"),
        pytest.param(make_pod("p").on("n1").cpu("1"), id="requests"),
        pytest.param(make_pod("p").on("n1").host_port(80), id="ports"),
    ],
)
def test_a_change_of_what_a_pod_takes_on_its_node_counts(newer: PodBuilder) -> None:
    info = make_pod("p").on("n1").info()
    assert info.renewed(make_pod("p").on("n1").phase("Running").struct()).takes_like(info)
    assert not info.renewed(newer.struct()).takes_like(info)


def test_a_bound_copy_shares_what_was_derived_and_leaves_the_original() -> None:
    info = make_pod("p").cpu("1").info()
    requests = info.requests
    bound = info.bound_to("n1")
    assert (info.node_name, bound.node_name) == ("", "n1")
    assert bound.requests is requests


def test_host_ports_of_containers_and_sidecars() -> None:
    pod = make_pod("p").host_port(80).host_port(81, "UDP", "10.0.0.1").host_port(0)
    assert pod.info().host_ports == (
        HostPort("0.0.0.0", "TCP", 80),
        HostPort("10.0.0.1", "UDP", 81),
    )


@pytest.mark.parametrize(
    ("image", "tagged"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.27", "nginx:1.27"),
        ("registry:5000/nginx", "registry:5000/nginx:latest"),
        ("registry:5000/nginx:1", "registry:5000/nginx:1"),
        ("nginx@sha256:0a", "nginx@sha256:0a"),
    ],
)
def test_image_names_get_a_tag(image: str, tagged: str) -> None:
    assert with_tag(image) == tagged
