"""Replaced methods of ``ProcessGroup`` where a class in Python inherits them.

The original looks for an override in the object's class, and finds the replacement: it would call that again, without
an end. pybind11 calls none where the caller's code has the name of the method and the object as its first argument
(``get_override`` in ``pybind11/pybind11.h``). That does not help methods that C++ knows by another name, such as
``reduce_scatter_single_coalesced``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def calling(original: Callable[..., Any], caller: Any) -> Callable[..., Any]:
    """Return ``caller``, a function that takes the group first, as one that ``original`` does not call again."""
    name = getattr(original, "__name__", None)
    if name is not None:
        caller.__code__ = caller.__code__.replace(co_name=name)
        caller.__name__ = name
    return caller  # type: ignore[no-any-return]
