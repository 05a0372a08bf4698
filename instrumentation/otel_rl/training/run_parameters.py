"""Parameters that the program gives a tracker for its run: an event of their own, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.core import clock, settings
from otel_rl.process import program_facts
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, redaction
from otel_rl.telemetry.attribute_values import plain, text

if TYPE_CHECKING:
    from otel_rl.telemetry import Scope

#: Longest value, in characters.
_LONGEST = 1024
#: Between the names of nested parameters.
_SEPARATOR = "."


def record(scope: Scope, values: Mapping[Any, Any]) -> None:
    """Record parameters; the program may change ``values`` afterwards. Nothing with ``OTEL_RL_ARGUMENTS=off``."""
    if settings.current().arguments == "off":
        return
    copied = plain(values)
    if isinstance(copied, dict) and copied:
        deferral.post(Signal.LOGS, partial(_record, scope, copied, clock.now()))


def _record(scope: Scope, values: dict[str, Any], timestamp: int) -> None:
    body: dict[str, Any] = {}
    _flatten(values, "", body)
    scope.event(events.RL_RUN_PARAMETERS, body=body, timestamp=timestamp)


def _flatten(values: Mapping[str, Any], prefix: str, body: dict[str, Any]) -> None:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            _flatten(value, f"{name}{_SEPARATOR}", body)
        else:
            body[name] = _cleared(name, value)


def _cleared(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_cleared(name, item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    shown = program_facts.parameter(name, str(value))
    if shown == program_facts.REMOVED or not isinstance(value, str):
        return shown if shown == program_facts.REMOVED else value
    cleared = redaction.text(shown, Signal.LOGS)
    return program_facts.REMOVED if cleared is None else text(cleared, _LONGEST)
