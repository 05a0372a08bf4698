"""Replacing attributes of foreign classes and modules so that they can be put back exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class _Replaced(NamedTuple):
    owner: Any
    name: str
    original: Any
    #: Found on a base class: restoring means deleting ours, not copying the base's attribute down.
    inherited: bool


class Patches:
    """The replacements one instrumentor made, in order.

    Originals are taken from the owner's ``__dict__``: reading them with ``getattr`` would bind them (a classmethod, a
    pybind method) and restoring the bound object breaks every later call.
    """

    def __init__(self) -> None:
        self._replaced: list[_Replaced] = []
        #: Names that this version of the library does not have, e.g. ``"ProcessGroup.all_gather_single"``.
        self.missing: list[str] = []

    def replace(self, owner: Any, name: str, factory: Callable[[Any], Any]) -> bool:
        """Set ``owner.name`` to ``factory(original)``.

        ``factory`` gets the raw object of the class or module dictionary. Returns False, and notes the name under
        :attr:`missing`, where the library has no such attribute: versions differ, that is no error.
        """
        if not hasattr(owner, name):
            self.missing.append(f"{getattr(owner, '__qualname__', getattr(owner, '__name__', owner))}.{name}")
            return False
        inherited = name not in vars(owner)
        original = _find_raw(owner, name) if inherited else vars(owner)[name]
        replacement = factory(original)
        setattr(owner, name, replacement)
        self._replaced.append(_Replaced(owner, name, original, inherited))
        return True

    def restore(self, keep: int = 0) -> None:
        """Put the originals back, last replacement first, down to the first ``keep`` replacements."""
        while len(self._replaced) > keep:
            owner, name, original, inherited = self._replaced.pop()
            if inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def __len__(self) -> int:
        return len(self._replaced)


def _find_raw(owner: Any, name: str) -> Any:
    for base in getattr(owner, "__mro__", ()):
        if name in vars(base):
            return vars(base)[name]
    return getattr(owner, name)
