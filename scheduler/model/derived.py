"""Attributes that are computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class derived(Generic[T]):
    """Like `functools.cached_property`, without its lock, and with less memory for each object.

    An object has no ``__dict__`` until it is read, which saves 80 bytes; the library's version
    reads it. Threads must not share the object.
    """

    def __init__(self, derive: Callable[[Any], T]) -> None:
        self._derive = derive
        self._name = ""
        self.__doc__ = derive.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = self._derive(instance)
        setattr(instance, self._name, value)  # found before this from now on
        return value
