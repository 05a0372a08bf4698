"""Wrap a method in a class that inherits it, and leave the order in which Python looks for methods as it is."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MISSING = object()
#: Most methods that are wrapped for one class at once; a program that patches its base all the time has no more.
MAXIMUM_METHODS = 16


class InheritedMethod:
    """Stands in a class for a method that the class inherits; wraps the one that Python would find without it.

    That depends on the class of the instance: below it another base may come first. It may also change while the
    program runs, where somebody patches a base. So the method is looked for at each access, as ``super()`` does.
    """

    def __init__(self, kind: type, name: str, wrap: Callable[[Any], Any]) -> None:
        self._kind = kind
        self._name = name
        self._wrap = wrap
        #: What has been wrapped, by what it was: an access gives the same object each time.
        self._wrapped: dict[Any, Any] = {}

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        owner = type(instance) if owner is None else owner
        method = self.resolve(owner)
        bind = getattr(type(method), "__get__", None)
        return method if bind is None else bind(method, instance, owner)

    def resolve(self, owner: type) -> Any:
        """Return the wrapped method that objects of ``owner`` call."""
        return self._wrapped_once(self._next(owner))

    def also(self, wrap: Callable[[Any], Any]) -> InheritedMethod:
        """Return the same with another wrapper around."""
        return InheritedMethod(self._kind, self._name, lambda raw: wrap(self._wrap(raw)))

    def _next(self, owner: type) -> Any:
        order = owner.__mro__
        # Somebody may have copied this into a class that is not below ours.
        after = order.index(self._kind) if self._kind in order else -1
        for base in order[after + 1 :]:
            method = vars(base).get(self._name, _MISSING)
            if method is not _MISSING:
                return method.resolve(owner) if isinstance(method, InheritedMethod) else method
        raise AttributeError(f"type object {owner.__name__!r} has no attribute {self._name!r}")

    def _wrapped_once(self, raw: Any) -> Any:
        if not inspect.isfunction(function_of(raw)):
            # An object of the program: it is called as it is.
            return raw
        wrapped = self._wrapped.get(raw)
        if wrapped is None:
            if len(self._wrapped) >= MAXIMUM_METHODS:
                self._wrapped.clear()
            wrapped = self._wrap(raw)
            # Pickle looks for it under these names, and has to find this very object.
            of_class = function_of(wrapped)
            of_class.__module__ = self._kind.__module__
            of_class.__qualname__ = f"{self._kind.__qualname__}.{self._name}"
            wrapped = self._wrapped.setdefault(raw, wrapped)
        return wrapped


def function_of(method: Any) -> Any:
    """Return the function of a class method or static method; anything else as it is."""
    return method.__func__ if isinstance(method, classmethod | staticmethod) else method


def wrap_method(
    kind: type,
    name: str,
    method: Any,
    wrap: Callable[[Any], Any],
    wrap_inherited: Callable[[Any], Any] | None = None,
) -> Any:
    """Return what ``kind`` has to hold under ``name`` for its ``method`` to be wrapped.

    ``wrap_inherited`` wraps the method where ``kind`` inherits it, instead of ``wrap``.
    """
    own = vars(kind).get(name, _MISSING)
    if own is _MISSING:
        return InheritedMethod(kind, name, wrap_inherited or wrap)
    return own.also(wrap) if isinstance(own, InheritedMethod) else wrap(method)
