"""Operations on the weights, the memory and the caches of an engine: parts of the phase ``rl.sync``, or all of it.

An operation that brings weights is the phase, unless the program is in it already. One on memory or caches is the
phase only outside of any phase: an engine that wakes up to make samples is a part of making samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlPhaseValues
from otel_rl.telemetry import deferral
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.training.phases import Phase, innermost, is_inside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.telemetry.scope import Scope

#: Spans of operations per step: an update may come in hundreds of parts.
SPANS_PER_STEP = 16


def is_phase(*, brings_weights: bool) -> bool:
    """Return whether an operation that begins here is the phase, and not a part of one."""
    return not is_inside(RlPhaseValues.SYNC) if brings_weights else innermost() is None


class SyncOperation:
    """One operation that is running; ``values`` are further attributes of its span, without those that are None."""

    def __init__(self, scope: Scope, name: str, values: Mapping[str, Any], *, is_phase: bool) -> None:
        self._scope, self._name = scope, name
        known = {key: value for key, value in values.items() if value is not None}
        self._began = deferral.now()
        self._phase = Phase(
            spans.RL_SYNC,
            scope,
            {attributes.RL_SYNC_OPERATION: name, **known},
            limit=SPANS_PER_STEP,
            has_duration=is_phase,
        ).start()

    def end(self, error: BaseException | str | None) -> None:
        """End it; ``error`` is an exception, or an ``error.type`` as text."""
        seconds = deferral.now().counter - self._began.counter
        self._phase.close(error)
        labels = {attributes.RL_SYNC_OPERATION: self._name}
        if error is not None:
            labels[attributes.ERROR_TYPE] = error if isinstance(error, str) else error_type(error)
        self._scope.record(metrics.RL_SYNC_OPERATION_DURATION, seconds, labels)
