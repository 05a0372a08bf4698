"""Values of ours by an object of a library, which need not be hashable, for as long as that object lives."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")


class ByObject(Generic[Value]):
    """A dictionary whose keys are objects by their identity."""

    def __init__(self) -> None:
        self._values: dict[int, tuple[ref[Any], Value]] = {}

    def put(self, key: Any, value: Value) -> None:
        """Keep ``value`` for ``key``."""
        identity = id(key)
        self._values[identity] = ref(key, lambda _: self._values.pop(identity, None)), value

    def get(self, key: Any) -> Value | None:
        """Return the value for ``key``, or None."""
        kept = self._values.get(id(key))
        return kept[1] if kept is not None and kept[0]() is key else None
