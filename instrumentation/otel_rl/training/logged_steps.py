"""Steps of a program of which nothing is known but what it logs: a dictionary with the number of a step.

That is for loops without a trainer or an optimizer that we follow, such as the controller of a system on Ray. A step
goes from the log call of the one before to its own; where the program logs how long it took, from that time before it.
Of the logged times the others are its phases: nobody says when they began, so they stand one after the other. All of it
is marked as logged, and made on an I/O thread after the fact.

A step that a trainer, the program itself or an optimizer tells comes first: then none is taken from the log.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import baggage
from opentelemetry.context import Context
from opentelemetry.trace import set_span_in_context

from otel_rl.process import process_identity
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import Scope, deferral, ids, lifecycle, run_span, sampling
from otel_rl.training import steps
from otel_rl.training.metric_keys import CANONICAL
from otel_rl.training.scalars import sink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_rl.semconv.definitions import SpanDefinition
    from otel_rl.training.log_calls import LogCall

_scope = Scope("logged_steps")
#: A time in seconds: ``timing_s/gen`` of verl, ``timing/train/generation`` of NeMo-RL, ``train/timing/broadcast`` of
#: OpenRLHF, ``perf/train_time`` of slime.
_TIME = re.compile(
    r"^(?:train/)?(?:(?:timing_s(?!/agent_loop/)|timing|timeperf|time)/(?:.*/)?(\w+?)(?:_time|_s)?|perf/(?:.*/)?(\w+)_time)$"
)
#: No part of the work: rollouts of AReaL that are held, and memory that is freed. Within another part: of SkyRL the
#: updates of ``train_critic_and_policy``; of verl's agent loops the slowest one, which the expression above leaves out.
_BESIDE = re.compile(r"pause|resume|continue|onload|offload|convert|^(?:policy|critic)_train$")
_STEP = re.compile(r"^(total_)?(step|iteration)(_total)?$")
#: The first one that is found in the name of a time.
_PHASES: tuple[tuple[re.Pattern[str], SpanDefinition], ...] = tuple(
    (re.compile(words), phase)
    for words, phase in (
        (r"wait|data_load|load_data|data_preprocess|get_batch", spans.RL_DATA_WAIT),
        (r"update_weights|model_update|weight_sync|sync|broadcast|transfer|refit", spans.RL_SYNC),
        (r"save|ckpt|checkpoint", spans.RL_CHECKPOINT),
        (r"eval|valid|^test", spans.RL_EVALUATE),
        (r"log_?prob|logp|^ref|values|make_experience", spans.RL_LOG_PROBS),
        (r"reward|score|judge", spans.RL_REWARD),
        (r"^gen|generat|rollout|sample|inference", spans.RL_SAMPLE),
        (r"update|train|backward|optim", spans.RL_TRAIN),
    )
)
#: What systems do after a step that they have timed, and log with it.
_AFTERWARDS = (spans.RL_EVALUATE, spans.RL_CHECKPOINT)
#: Seconds after which what was logged of a step is all of it; the second one in a worker that may be killed.
_QUIET, _SOON_QUIET = 10.0, 2.0
#: Log calls in a row that come late at most.
_LATE = 8
_DRIVER = RlRoleValues.DRIVER
#: Seconds beyond which a number is no time.
_MOST = 1e9
_NANOSECONDS = 1_000_000_000


class _StepLog(NamedTuple):
    """What was logged of one step: by when, and how many seconds its parts took."""

    iteration: int
    ended: int
    seen: float
    times: dict[str, float]


#: The step that is being logged, and the one that was recorded last and its end in ns since the epoch.
_open: _StepLog | None = None
_last: int | None = None
_before = 0
_follows = False
#: Whether it logs times; how many log calls in a row had a lower number than the step before.
_is_timed, _behind = False, 0


def follow() -> None:
    """Take steps from what the trackers of this process get."""
    global _follows
    _follows = True
    sink.listeners.add(_logged)
    lifecycle.at_intervals(_look)
    lifecycle.before_shutdown(_end)
    lifecycle.after_fork_in_child(_forget)


def _logged(call: LogCall) -> None:
    global _open
    iteration = call.iteration
    if iteration is None or steps.last_iteration() is not None or not _is_of_training(call.values):
        return
    if baggage.get_baggage(attributes.RL_LOOP_ITERATION, call.context) is not None:
        # A call of another process, which has the steps.
        return
    before, times = _open, dict(_times(call.values))
    if before is not None and before.iteration != iteration:
        if not _goes_on(before.iteration, iteration, has_times=bool(times)):
            return
        _end()
        before = None
    elif before is None and _last is not None and not _goes_on(_last, iteration, has_times=bool(times)):
        return
    if before is None:
        process_identity.begin_steps()
        _open = _StepLog(iteration, call.timestamp, time.monotonic(), times)
    else:
        before.times.update(times)


def _goes_on(last: int, iteration: int, *, has_times: bool) -> bool:
    """Return whether a step begins after ``last``.

    A value may come late, such as an evaluation, and a program may count several things, such as rollouts and updates:
    then the steps are what it times. Numbers that stay low have begun again.
    """
    global _behind, _is_timed
    _is_timed = _is_timed or has_times
    if iteration > last:
        _behind = 0
        return has_times or not _is_timed
    _behind += iteration != last
    return _behind > _LATE


def _is_of_training(values: Mapping[str, Any]) -> bool:
    """Return whether a log call is one of a training: not every program that counts its log calls trains."""
    return any(key in CANONICAL or _TIME.match(key) for key in values)


def _times(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in values.items():
        match = _TIME.match(key)
        if match is not None and isinstance(value, int | float) and 0 <= value < _MOST:
            yield match.group(1) or match.group(2), float(value)


def _look() -> None:
    quiet = _SOON_QUIET if lifecycle.may_be_killed else _QUIET
    if _open is not None and time.monotonic() - _open.seen >= quiet:
        deferral.post(Signal.TRACES, _end)


def call_ended() -> None:
    """Record a step whose length has been logged: the worker that logged it may be killed after its call."""
    if _follows and (_open is not None or deferral.has_posts()):
        deferral.post(Signal.TRACES, _end_if_whole)


def _end_if_whole() -> None:
    if _open is not None and any(map(_STEP.match, _open.times)):
        _end()


def _end() -> None:
    """Record the step: another one has begun, or no more is logged of it."""
    global _open, _last, _before
    logged, _open = _open, None
    if logged is None or steps.last_iteration() is not None:
        return
    _last = logged.iteration
    length = next((round(seconds * _NANOSECONDS) for name, seconds in logged.times.items() if _STEP.match(name)), 0)
    parts, after = _parts(logged.times, length or logged.ended - _before)
    ended = logged.ended - after if length else logged.ended
    began = ended - length if length else _before
    _before = logged.ended
    # Of the first step nobody may know when it began.
    if began > 0 and process_identity.current().leads_training:
        _record(logged, parts, began, ended)


def _parts(times: Mapping[str, float], length: int) -> tuple[list[tuple[SpanDefinition, int]], int]:
    """Return phases and their length, and how much of evaluations and checkpoints came after the step; all in ns.

    What does not fit into what is left of the step is within another part, or after it. Clocks differ by 1 % at most.
    """
    parts, after, left = [], 0, length + length // 100
    for name, seconds in times.items():
        phase = next((phase for words, phase in _PHASES if words.search(name)), None)
        if phase is None or _STEP.match(name) or _BESIDE.search(name):
            continue
        part = round(seconds * _NANOSECONDS)
        if part <= left:
            parts.append((phase, part))
            left -= part
        elif phase in _AFTERWARDS:
            after += part
    return parts, after


def _record(logged: _StepLog, parts: Sequence[tuple[SpanDefinition, int]], began: int, ended: int) -> None:
    identity = process_identity.current()
    own = ids.derive(identity.steps_key, "logged", logged.iteration, logged.ended)
    values = {
        # Of slime both the manager of the rollouts and the trainer log, each with steps of its own length.
        attributes.RL_LOOP_NAME: identity.worker_name or (_DRIVER if identity.role == _DRIVER else None),
        attributes.RL_LOOP_ITERATION: logged.iteration,
        attributes.RL_LOOP_SOURCE: LoopSource.LOGGED,
        attributes.RL_SAMPLING_PRIORITY: sampling.KEEP,
    }
    with ids.pinned(own):
        root = _scope.start_span(
            spans.RL_LOOP, attributes=values, context=Context(), links=[run_span.link()], start_time=began
        )
    below_root = set_span_in_context(root, Context())
    rank = _scope.start_span(spans.RL_RANK_STEP, attributes=values, context=below_root, start_time=began)
    below_rank, at = set_span_in_context(rank, Context()), began
    for phase, length in parts:
        values = {
            attributes.RL_PHASE: phase.type.removeprefix("rl."),
            attributes.RL_LOOP_ITERATION: logged.iteration,
            attributes.RL_LOOP_SOURCE: LoopSource.LOGGED,
        }
        span = _scope.start_span(phase, attributes=values, context=below_rank, start_time=at)
        at = min(at + length, ended)
        _scope.end_span(span, None, at)
    _scope.record(metrics.RL_LOOP_DURATION, (ended - began) / _NANOSECONDS, context=below_root)
    _scope.record(metrics.RL_LOOP_CURRENT, logged.iteration, context=below_root)
    _scope.record(metrics.RL_TRAIN_STEPS, 1, context=below_root)
    _scope.end_span(rank, None, ended)
    _scope.end_span(root, None, ended)


def _forget() -> None:
    global _open, _last, _before, _is_timed, _behind
    _open, _last, _before, _is_timed, _behind = None, None, 0, False, 0
