"""ImageLocality against bytes added up image by image."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugins.image_locality import ImageLocality
from tests.builders import make_node, make_pod
from tests.plugins.support import Bench

MI = 2**20
SIZES = {"a:1": 10 * MI, "b:latest": 300 * MI, "c:1": 900 * MI + 7, "d:1": 5000 * MI}

presence = st.lists(st.sets(st.sampled_from(list(SIZES))), min_size=1, max_size=5)
used = st.sampled_from([*SIZES, "b", "unheard/of"])


@given(presence, st.lists(used, min_size=1, max_size=3), st.lists(used, max_size=2))
def test_every_score(cluster: list[set[str]], main: list[str], init: list[str]) -> None:
    nodes = []
    for i, images in enumerate(cluster):
        node = make_node(f"n{i}")
        for image in sorted(images):
            node.image(image, f"{image}@sha256:0", size=SIZES[image])
        nodes.append(node)
    pod = make_pod("p").no_containers()
    for image in main:
        pod.container({}, image)
    for image in init:
        pod.init_container({}, image)

    def score(present: set[str]) -> int:
        total = 0
        for image in (*main, *init):
            name = "b:latest" if image == "b" else image
            if name in present:
                holders = sum(name in images for images in cluster)
                total += int(SIZES[name] * (holders / len(cluster)))
        ceiling = 1000 * MI * len((*main, *init))
        local = max(23 * MI, min(total, ceiling))
        return 100 * (local - 23 * MI) // (ceiling - 23 * MI)

    got = Bench(ImageLocality, nodes).scores(pod)
    assert got == {f"n{i}": score(images) for i, images in enumerate(cluster)}


def test_nodes_may_differ_about_the_size_of_an_image() -> None:
    """The largest counts: the same after a restart, whichever node is listed first."""
    nodes = [make_node(f"n{i}").image("a:1", size=size * MI) for i, size in enumerate((100, 700))]
    pod = make_pod("p").image("a:1")
    assert Bench(ImageLocality, nodes).scores(pod) == {"n0": 69, "n1": 69}
    assert Bench(ImageLocality, nodes[::-1]).scores(pod) == {"n0": 69, "n1": 69}


@pytest.mark.parametrize(
    ("mebibytes", "score"),
    [
        pytest.param(23, 0, id="the floor"),
        pytest.param(32, 0, id="100 * 9 / 977 = 0.92, cut"),
        pytest.param(33, 1, id="100 * 10 / 977 = 1.02"),
        pytest.param(512, 50, id="half way"),
        pytest.param(999, 99, id="nearly there"),
        pytest.param(1000, 100, id="the ceiling"),
        pytest.param(4000, 100, id="beyond it"),
    ],
)
def test_one_image_on_the_only_node(mebibytes: int, score: int) -> None:
    node = make_node("n").image("a:1", size=mebibytes * MI)
    assert Bench(ImageLocality, [node]).scores(make_pod("p").image("a:1")) == {"n": score}


def test_an_absurd_size_is_a_full_score_and_no_fault() -> None:
    node = make_node("n").image("a:1", size=2**63 - 1).image("b:1", size=2**63 - 1)
    pod = make_pod("p").image("a:1").container({}, "b:1")
    assert Bench(ImageLocality, [node]).scores(pod) == {"n": 100}


def test_an_image_is_forgotten_with_its_last_node() -> None:
    bench = Bench(ImageLocality, [make_node("n1").image("a:1", size=2000 * MI), make_node("n2")])
    pod = make_pod("p").image("a:1")
    assert bench.scores(pod) == {"n1": 100, "n2": 0}
    bench.state.set_node(make_node("n1").struct())
    assert bench.scores(pod) == {"n1": 0, "n2": 0}
