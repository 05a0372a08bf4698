"""Self-telemetry metrics: drops, internal errors, the state of the instrumentors, and our own CPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.core import instrumentor_status, own_cpu
from otel_rl.core.guard import error_counts
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import RlTelemetryThreadValues as Thread
from otel_rl.telemetry import drops, lifecycle
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Observations = Iterator[tuple[float, Mapping[str, str]]]

_SECONDS = 1e-9
_STATES = {
    instrumentor_status.ACTIVE: 1,
    instrumentor_status.DEGRADED: 0.5,
    instrumentor_status.SKIPPED: 0,
    instrumentor_status.FAILED: -1,
}


def register() -> None:
    """Observe the self-telemetry; called once by the distro when its meter provider stands."""
    scope = Scope("telemetry")
    scope.observe(metrics.RL_TELEMETRY_DROPPED, _dropped)
    scope.observe(metrics.RL_TELEMETRY_ERRORS, _errors)
    scope.observe(metrics.RL_TELEMETRY_INSTRUMENTOR_STATUS, _instrumentors)
    scope.observe(metrics.RL_TELEMETRY_CPU_TIME, _own_cpu)
    lifecycle.after_fork_in_child(own_cpu.reset)


def _dropped() -> Observations:
    for (signal, reason), number in drops.snapshot().items():
        yield number, {attributes.RL_TELEMETRY_SIGNAL: signal, attributes.RL_TELEMETRY_DROP_REASON: reason}


def _errors() -> Observations:
    for site, number in error_counts().items():
        yield number, {attributes.RL_TELEMETRY_SITE: site}


def _instrumentors() -> Observations:
    for name, outcome in instrumentor_status.snapshot().items():
        if outcome["state"] in _STATES:
            yield _STATES[outcome["state"]], {attributes.RL_TELEMETRY_INSTRUMENTOR: name}


def _own_cpu() -> Observations:
    # This runs on an I/O thread: here threads of ours are looked for.
    own_cpu.find_threads()
    yield own_cpu.nanoseconds() * _SECONDS, {attributes.RL_TELEMETRY_THREAD: Thread.PROGRAM}
    yield own_cpu.threads_nanoseconds() * _SECONDS, {attributes.RL_TELEMETRY_THREAD: Thread.OWN}
