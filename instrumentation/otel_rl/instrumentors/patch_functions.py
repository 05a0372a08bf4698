"""Patch functions that are declared in one line.

They are what ``modules`` of an instrumentor names::

    patch_tools = observing("Tool.__call__", "Tool.acall", begin=_tool_begins, end=ToolCall.ended)

``followed_calls.following`` makes one that follows functions.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.telemetry.context import detach
from otel_rl.telemetry.scope import enabled

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from types import ModuleType

    from opentelemetry.context import Context

    from otel_rl.instrumentors.base import PatchFunction
    from otel_rl.instrumentors.patching import Patches


def observing(
    *names: str, required: bool = True, begin: Callable[..., Any] | None = None, **hooks: Any
) -> PatchFunction:
    """Return a patch function that observes the functions of these names; see :class:`~.observing.Hooks`.

    ``begin`` is called only while telemetry is on.
    """
    if begin is not None:
        hooks["begin"] = partial(_if_enabled, begin)

    def patch(module: ModuleType, patches: Patches) -> None:
        for name in names:
            patches.observe(module, name, required=required, **hooks)

    return patch


def _if_enabled(begin: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return begin(*args, **kwargs) if enabled() else None


def replacing(name: str, factory: Callable[[Any], Any], *, required: bool = True) -> PatchFunction:
    """Return a patch function that replaces one function; see :meth:`~.patching.Patches.replace`."""

    def patch(module: ModuleType, patches: Patches) -> None:
        patches.replace(module, name, factory, required=required)

    return patch


def bypassing(name: str, *, when: Callable[..., bool], result: Callable[..., Any]) -> PatchFunction:
    """Return a patch function: a call returns ``result`` of its arguments, without the original, if ``when`` is true.

    ``when`` gets the arguments, too; an error of ours in it leaves the call alone.
    """
    site = guard(f"bypass.{name}")

    def factory(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            is_bypassed = False
            with site:
                is_bypassed = when(*args, **kwargs)
            return result(*args, **kwargs) if is_bypassed else original(*args, **kwargs)

        return function

    return replacing(name, factory)


def left(token: Token[Context], *_: Any) -> None:
    """Leave the context that the ``begin`` of a call made current; for ``end``."""
    detach(token)


def together(*functions: PatchFunction) -> PatchFunction:
    """Return a patch function that applies all of these to one module."""

    def patch(module: ModuleType, patches: Patches) -> None:
        for function in functions:
            function(module, patches)

    return patch
