"""Attributes that are computed when they are first read."""

from __future__ import annotations

from scheduler.model.derived import derived


class Circle:
    def __init__(self, radius: int) -> None:
        self.radius = radius
        self.computed = 0

    @derived
    def area(self) -> int:
        """Three is near enough."""
        self.computed += 1
        return 3 * self.radius**2


def test_it_is_computed_once_for_each_object() -> None:
    one, other = Circle(1), Circle(2)
    assert [one.area, one.area, other.area] == [3, 3, 12]
    assert (one.computed, other.computed) == (1, 1)


def test_it_can_be_set_and_forgotten() -> None:
    circle = Circle(1)
    circle.area = 7
    assert circle.area == 7
    del circle.area
    assert circle.area == 3


def test_the_class_has_its_words() -> None:
    assert Circle.area.__doc__ == "Three is near enough."
