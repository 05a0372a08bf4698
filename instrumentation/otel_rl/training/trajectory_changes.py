"""Records ``rl.trajectories.changes``: what is said of trajectories whose rows other records have, a list per column.

Made in batches on an I/O thread where there is one: with the next export, at a flush and at the end of the process. Of
a child process of a rollout also when nothing was added for about a second. Readers join the rows.
"""

from __future__ import annotations

import time

from opentelemetry import trace as trace_api
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN

from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, lifecycle
from otel_rl.telemetry.attribute_values import PlainBody
from otel_rl.telemetry.scope import Scope
from otel_rl.training import trajectory_bodies, trajectory_shares
from otel_rl.training.trajectory_columns import ROWS_PER_RECORD, Columns

_scope = Scope("api")
#: Without an I/O thread changes wait for so many others, or for so many seconds.
WAITING_CHANGES, WAITING_SECONDS = ROWS_PER_RECORD, 5.0
#: A child that goes on and on says what is new after so many seconds.
_LONGEST_SILENCE = 30.0
#: Of a record that belongs to no step.
_NO_CONTEXT = trace_api.set_span_in_context(INVALID_SPAN, Context())
_SITE = guard("trajectories.changes")
#: Whether a recording on an I/O thread is already scheduled.
_posted = False
#: Since when something waits, 0 for nothing; and when the last record was made.
_waits_since = _recorded_at = 0.0


def changed() -> None:
    """Something was said: have it recorded with the next export, all of it together."""
    global _posted, _waits_since
    lifecycle.before_shutdown(record)
    if not _waits_since:
        _waits_since = time.monotonic()
    if deferral.posting():
        if not _posted:
            _posted = True
            if not deferral.post(Signal.LOGS, record):
                _posted = False
    elif trajectory_shares.waiting() >= WAITING_CHANGES or time.monotonic() - _waits_since >= WAITING_SECONDS:
        deferral.post(Signal.LOGS, record)


def begin_in_child(*, is_forked: bool) -> None:
    """Where this process was started inside a rollout, what it adds is recorded: at its end at the latest."""
    with guard("trajectories.child"):
        if trajectory_shares.join_in_child(is_forked=is_forked):
            lifecycle.before_shutdown(record)


def record() -> None:
    """Record what is new."""
    global _posted, _waits_since, _recorded_at
    _posted, _waits_since, _recorded_at = False, 0.0, time.monotonic()
    with _SITE:
        changes, left_out = trajectory_shares.take()
        # By formula: a record has one.
        by_estimator: dict[str | None, list[Columns]] = {}
        for change in changes:
            made = Columns(
                {key: (value,) for key, value in change.columns.items()},
                {name: (score,) for name, score in change.scores.items()},
                change.weights,
                change.estimator,
                metrics={name: (value,) for name, value in change.metrics.items()},
            )
            by_estimator.setdefault(change.estimator, []).append(made)
        for estimator, rows in by_estimator.items():
            _, bodies = trajectory_bodies.make(rows, [1] * len(rows))
            for body in bodies:
                _emit(body, estimator, left_out)
                left_out = 0
        if left_out:
            _emit(PlainBody(), None, left_out)


def _emit(body: PlainBody, estimator: str | None, left_out: int) -> None:
    _scope.event(
        events.RL_TRAJECTORIES_CHANGES,
        body=body,
        attributes={
            attributes.RL_ADVANTAGE_ESTIMATOR: estimator or None,
            attributes.RL_TRAJECTORIES_LEFT_OUT: left_out or None,
        },
        context=_NO_CONTEXT,
    )


def _record_soon() -> None:
    if trajectory_shares.has_news(quiet=False):
        deferral.post(Signal.LOGS, record)


def _record_when_quiet() -> None:
    is_long = time.monotonic() - _recorded_at >= _LONGEST_SILENCE
    if trajectory_shares.has_news(quiet=not is_long):
        deferral.post(Signal.LOGS, record)


def begin_anew() -> None:
    """In a forked child."""
    global _posted, _waits_since, _recorded_at
    _posted, _waits_since, _recorded_at = False, 0.0, time.monotonic()
    trajectory_shares.forget()
    begin_in_child(is_forked=True)


lifecycle.before_flush(_record_soon)
lifecycle.at_intervals(_record_when_quiet)
lifecycle.after_fork_in_child(begin_anew)
