"""The calls that a process makes: the caller's context goes along.

Ray's own tracing gives each method of an actor a keyword argument ``_ray_trace_ctx``, whether or not it is on
(``_inject_tracing_into_class`` in ``ray/util/tracing/tracing_helper.py``, 2.40 to 2.60), so a worker without us ignores
what it holds. Functions have it only while that tracing is on: their calls take nothing along.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.core import own_cpu
from otel_rl.core.guard import guard
from otel_rl.telemetry import propagation
from otel_rl.telemetry.scope import enabled
from otel_rl.training import caller_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context

#: The argument, and what else it holds beside the headers.
CARRIER = "_ray_trace_ctx"
STEP = "otel_rl_step"
_SITE = guard("ray.call")


def carrying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``ActorHandle._actor_method_call`` with the caller's context among the keyword arguments."""

    @functools.wraps(original)
    def _actor_method_call(
        self: Any, method_name: str, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any
    ) -> Any:
        try:
            kwargs = _with_context(self, method_name, kwargs)
        except Exception as ours:  # noqa: BLE001 - counted
            _SITE.handle(ours)
        return original(self, method_name, args, kwargs, *rest, **options)

    return _actor_method_call


def _carried(handle: Any, method_name: str, kwargs: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    step = caller_steps.message()
    has_trace = trace_api.get_current_span().get_span_context().is_valid
    if (step is None and not has_trace) or not _takes_carrier(handle, method_name):
        return kwargs
    given = kwargs or {}
    carrier = _carrier_of(get_current())
    if not carrier:
        return kwargs
    own = carrier if step is None else {**carrier, STEP: step}
    # That of Ray's own tracing wins.
    return {**given, CARRIER: {**own, **(given.get(CARRIER) or {})}}


def _carrier_of(context: Context) -> Mapping[str, str]:
    """Return what goes with calls in ``context``; those of one step or rollout have the same."""
    global _latest
    known, carrier = _latest
    if known is not context:
        carrier = propagation.to_cluster(context)
        _latest = context, carrier
    return carrier


#: The context of the latest call, and its carrier.
_latest: tuple[Context | None, Mapping[str, str]] = (None, {})
_timed = own_cpu.timed("ray.call", _carried)


def _with_context(handle: Any, method_name: str, kwargs: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return _timed(handle, method_name, kwargs) if enabled() else kwargs


def _takes_carrier(handle: Any, method_name: str) -> bool:
    """Return whether the method has the argument; generators and methods of other languages have none."""
    if handle._ray_is_cross_language:  # noqa: SLF001 - as ``_actor_method_call`` asks it
        return False
    signature = handle._ray_method_signatures.get(method_name, ())  # noqa: SLF001 - as above
    return any(parameter.name == CARRIER for parameter in signature)
