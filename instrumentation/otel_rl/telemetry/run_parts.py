"""What the leading process does outside of steps, as spans below ``rl.run``, and which program it runs, as an event.

A process that records nothing else records none of this: parts wait for the first other record. A part inside of one of
the same kind belongs to that.
"""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from opentelemetry import trace as trace_api

from otel_rl.core import clock, settings
from otel_rl.core.guard import guard
from otel_rl.core.import_hooks import hooks
from otel_rl.process import child_processes, process_identity, program_facts
from otel_rl.semconv import attributes, events, spans
from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, lifecycle, progress, redaction, run_span
from otel_rl.telemetry.attribute_values import error_type
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Hook = Callable[..., Any]

_scope = Scope("run")
#: In ns.
SHORTEST = 1_000_000
#: Most spans of each part.
MOST = 100


class CallHooks(TypedDict):
    """What runs before and after a call."""

    begin: Hook
    end: Hook


class _PartOfRun(NamedTuple):
    """One part of the run; times in ns since the epoch."""

    part: str
    start: int
    end: int
    error: str | None = None
    #: Of a data set, before and after.
    rows: tuple[int, int] | None = None


class _Open(threading.local):
    """The parts that are open in this thread."""

    def __init__(self) -> None:
        self.parts: set[str] = set()


class _Program:
    """What is known of the program, and what of it was recorded."""

    def __init__(self) -> None:
        #: What a trainer has said, by the names of attributes.
        self.said: dict[str, Any] = {}
        self.recorded: Mapping[str, Any] = {}
        self.unchanging: Mapping[str, Any] = {}
        #: Something else has been recorded.
        self.is_awaited = False


_open = _Open()
_program = _Program()
_waiting: list[_PartOfRun] = []
_counts: dict[str, int] = {}


def following(part: str, count: Callable[..., int] = lambda *_, **__: 0) -> CallHooks:
    """Return the hooks ``begin`` and ``end`` that record a call as a part of the run.

    ``count`` gets the arguments of the call, and returns what the open part counts (:data:`layout.PARTS`), as rows of a
    data set. Its result then has those after it.
    """

    def begin(*args: Any, **kwargs: Any) -> tuple[int, progress.OpenPart] | None:
        if part in _open.parts:
            return None
        number = 0
        with guard("run_parts.count"):
            number = count(*args, **kwargs)
        _open.parts.add(part)
        # Making a trainer or an engine and mapping a data set start processes.
        may_watch = part not in (Part.TRAINER, Part.ENGINE, Part.DATASET)
        return clock.now(), progress.part_began(part, number, may_watch=may_watch)

    def end(begun: tuple[int, progress.OpenPart], result: Any, error: BaseException | None) -> None:
        since, opened = begun
        _open.parts.discard(part)
        progress.part_ended(opened, failed=error is not None)
        rows = None
        if part == Part.DATASET and opened.argument and error is None:
            with guard("run_parts.rows"):
                rows = opened.argument, len(result)
        add(part, since, error, rows)

    return {"begin": begin, "end": end}


def add(part: str, since: int, error: BaseException | None = None, rows: tuple[int, int] | None = None) -> None:
    """Record a part that has just ended; ``since`` in ns since the epoch, ``rows`` of a data set before and after."""
    _wait_or_post(_PartOfRun(part, since, clock.now(), None if error is None else error_type(error), rows))


def is_inside() -> bool:
    """Return whether a part is open in this thread."""
    return bool(_open.parts)


def describe(said: Mapping[str, Any]) -> None:
    """Add what a trainer knows of the run, by the names of attributes."""
    _program.said.update({name: value for name, value in said.items() if value is not None})


def await_report() -> None:
    """Record what waits, and the program, on an I/O thread: something else is recorded now, or a first step begins."""
    _program.is_awaited = True
    # Of a program with PyTorch alone it is known only at the first export whether it leads.
    process_identity.add_listener(_identity_known)
    deferral.post(Signal.LOGS, report)


def _identity_known(_: process_identity.ProcessIdentity) -> None:
    if _program.is_awaited and process_identity.settled():
        deferral.post(Signal.LOGS, report)


def report(*, at_end: bool = False) -> None:
    """Record what waits, and what of the program is not recorded yet, where this process leads the run.

    At the end the program is not recorded here: :func:`facts` go with the event on the end.
    """
    identity = process_identity.current()
    if not _program.is_awaited or (not at_end and (lifecycle.is_ending or not process_identity.settled())):
        return
    for start, end in hooks.take_intervals():
        _wait(_PartOfRun(Part.IMPORT, start, end))
    while _waiting:
        stretch = _waiting.pop(0)
        if identity.leads:
            _record(stretch)
    if identity.leads and not at_end:
        _record_program()


def _wait_or_post(stretch: _PartOfRun) -> None:
    if _wait(stretch) and _program.is_awaited:
        deferral.post(Signal.TRACES, report)


def _wait(stretch: _PartOfRun) -> bool:
    is_empty = stretch.rows is not None and not stretch.rows[1]
    if (stretch.end - stretch.start < SHORTEST and not is_empty) or _counts.get(stretch.part, 0) >= MOST:
        return False
    _counts[stretch.part] = _counts.get(stretch.part, 0) + 1
    _waiting.append(stretch)
    return True


def _record(stretch: _PartOfRun) -> None:
    run_span.own_records[Signal.TRACES] += 1
    context = trace_api.set_span_in_context(trace_api.NonRecordingSpan(run_span.link().context))
    part: dict[str, Any] = {attributes.RL_RUN_PART: stretch.part}
    if stretch.rows is not None:
        part[attributes.RL_DATASET_ROWS_BEFORE], part[attributes.RL_DATASET_ROWS_AFTER] = stretch.rows
    span = _scope.start_span(spans.RL_RUN_PART, attributes=part, context=context, start_time=stretch.start)
    _scope.end_span(span, stretch.error, stretch.end)


def _record_program() -> None:
    known = facts()
    if known != _program.recorded:
        _program.recorded = known
        run_span.own_records[Signal.LOGS] += 1
        run_span.emit(events.RL_RUN_PROGRAM, clock.now(), known)


def facts() -> dict[str, Any]:
    """Return what is known of the program by now, by the names of attributes."""
    if not _program.unchanging:
        _program.unchanging = _unchanging()
    versions = [f"{name} {version}" for name, version in program_facts.loaded_versions().items()]
    return {**_program.unchanging, attributes.RL_RUN_LIBRARY_VERSIONS: versions, **_program.said}


def _unchanging() -> dict[str, Any]:
    argv, created = child_processes.original_arguments(), program_facts.created()
    known: dict[str, Any] = {attributes.VCS_REF_HEAD_REVISION: program_facts.commit(argv)}
    if created:
        moment = datetime.fromtimestamp(created / 1e9, timezone.utc).isoformat(timespec="milliseconds")
        known[attributes.PROCESS_CREATION_TIME] = moment.replace("+00:00", "Z")
    if created and run_span.start_up is not None:
        began, ended = run_span.start_up
        known[attributes.RL_RUN_START_UP_DURATION] = max(ended - created, 0) / 1e9
        known[attributes.RL_TELEMETRY_START_UP_DURATION] = (ended - began) / 1e9
    if settings.current().arguments == "on":
        known[attributes.PROCESS_COMMAND_ARGS] = program_facts.arguments(argv, _redacted)
    return {name: value for name, value in known.items() if value}


def _redacted(text: str) -> str | None:
    return redaction.text(text, Signal.LOGS)


def _forget() -> None:
    """Forget the parent's: a child was made by the fork, and its program is what it was."""
    global _program
    hooks.take_intervals()
    run_span.start_up = None
    _program = _Program()
    _waiting.clear()
    _counts.clear()
    _open.parts.clear()


lifecycle.after_fork_in_child(_forget)
