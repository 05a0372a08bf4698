"""What the instrumentors of experiment trackers have in common: whose step a log call has, and what is handed on.

The step of a log call is the first of these that is there:

1. the argument of the call;
2. a key among the values, see :data:`~otel_rl.training.logged_values.STEP_KEYS`; it is no value then;
3. the step that is open, where the program or a trainer has said which it is;
4. the counter of the tracker;
5. none: the values are gauges and a record without a step.

A step that is no whole number counts as none. Steps that go back are recorded as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import Scope, drops
from otel_rl.telemetry.scope import enabled
from otel_rl.training import logged_steps, steps
from otel_rl.training.configuration import record_configuration
from otel_rl.training.logged_values import step_among, step_number
from otel_rl.training.scalars import is_calling, sink

if TYPE_CHECKING:
    from contextvars import Token

    from otel_rl.training.scalars import Source


class Tracker:
    """One library of trackers. ``separator`` stands in its keys between those of nested mappings."""

    def __init__(self, library: str, source: Source, separator: str = "/") -> None:
        logged_steps.follow()
        self._library = library
        self.scope = Scope(library)
        self._source = source
        self._separator = separator

    def log(self, values: Any, step: Any = None, counter: Any = None) -> None:
        """Record a log call.

        ``step`` is the argument of the call, ``counter`` the step that the tracker itself would give it.
        """
        if isinstance(values, Mapping):
            iteration, values = self._placed(values, step, counter)
            sink.log(self.scope, self._source, iteration, values, separator=self._separator)

    def begin(self, values: Any = None, step: Any = None, counter: Any = None) -> Token[object] | None:
        """Record a log call as :meth:`log` does; :meth:`end` takes what this returns.

        None where the call is part of another.
        """
        if is_calling() or not enabled():
            return None
        if values is not None:
            self.log(values, step, counter)
        return sink.begin_call(self._source)

    def end(self, token: Token[object], *_: object) -> None:
        """End the call."""
        sink.end_call(token)

    def single(self, key: Any, value: Any, step: Any = None, counter: int | None = None) -> None:
        """Record a call that logs one value, as :meth:`log` does."""
        iteration = step if type(step) is int else step_number(step)
        if iteration is None:
            iteration = _open_step()
        sink.log_single(self.scope, self._source, counter if iteration is None else iteration, key, value)

    def leave_out(self, reason: str) -> None:
        """Count something that is shown by the tracker only."""
        if enabled() and not is_calling():
            drops.count(Signal.LOGS, reason)

    def parameters(self, values: Any) -> None:
        """Record parameters of the run."""
        if enabled() and isinstance(values, Mapping):
            record_configuration(self._library, values)

    def _placed(self, values: Mapping[Any, Any], step: Any, counter: Any) -> tuple[int | None, Mapping[Any, Any]]:
        """Return the step of a call, and its values without the one that is the step."""
        iteration = step_number(step)
        if iteration is not None:
            return iteration, values
        found = step_among(values)
        if found is not None:
            return found[1], {key: value for key, value in values.items() if key != found[0]}
        iteration = _open_step()
        return (step_number(counter) if iteration is None else iteration), values


def _open_step() -> int | None:
    step = steps.where().certain_step
    return step.iteration if step is not None and step.is_open else None
