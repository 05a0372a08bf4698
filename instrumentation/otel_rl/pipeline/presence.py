"""What a process shows before its first record: its folder, its begin, its ring; nothing of it stays if none follows.

Jobs hang and die most while they load, so the folder is made when the first import of an instrumented library ends.
A short-lived thread makes it and ends before the program continues: no fork meets it. If the file system does not
answer in time, the program continues without it.
"""

from __future__ import annotations

import os
import resource as system_resource
import time
from _thread import get_native_id
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_rl.core import __version__, clock
from otel_rl.core.guard import guard
from otel_rl.core.threads import Wakeup, start_new_thread
from otel_rl.flight_recorder.recorder import flight
from otel_rl.process import child_processes
from otel_rl.semconv import SCHEMA_URL, events
from otel_rl.telemetry import lifecycle, run_span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.pipeline.providers import Telemetry

#: Largest file that the process must be allowed to write: beyond its limit the kernel sends it a signal.
_LARGEST = 1 << 20
#: Seconds that a file system has to answer.
_TIME = 0.2
_SCOPE = InstrumentationScope("otel_rl.run", __version__, SCHEMA_URL)


def show(telemetry: Telemetry) -> None:
    """Show that this process runs, unless it has recorded something, or another one speaks for it."""
    with guard("presence.show"):
        if child_processes.is_data_loader_worker() or lifecycle.is_ending or not run_span.may_show():
            return
        # Of a rank the begin is recorded by now, and what it waits in before its first step is in its ring alone.
        flight.show()
        begin = run_span.shown_begin()
        if begin is not None and _goes_to_files(telemetry) and telemetry.store.files.directory is None:
            line = _line(telemetry, *begin)
            _within_time(lambda: telemetry.files.stand_in(lambda: telemetry.store.files.show(line)))


def withdraw(telemetry: Telemetry) -> None:
    """Remove what was shown, at the end of a process that has recorded nothing."""
    with guard("presence.withdraw"):
        if not lifecycle.has_recorded and not any(thread.needed for thread in telemetry.threads):
            if telemetry.store.files.is_only_shown:
                _within_time(lambda: telemetry.files.stand_in(telemetry.store.files.withdraw))
            flight.withdraw()


def _within_time(work: Callable[[], object]) -> None:
    """Have ``work`` done by a thread, and wait for its end, but no longer than the time that it has."""
    done, began = Wakeup(), time.monotonic()
    thread: list[int] = []

    def _run() -> None:
        thread.append(get_native_id())
        try:
            with guard("presence.work"):
                work()
        finally:
            done.set()

    try:
        start_new_thread(_run, ())
    except RuntimeError:
        # No more threads: then there is nothing to see either.
        return
    if done.wait(_TIME):
        # It is still there for some microseconds.
        while os.path.exists(f"/proc/self/task/{thread[0]}") and time.monotonic() - began < _TIME:  # noqa: PTH110
            time.sleep(0)


def _goes_to_files(telemetry: Telemetry) -> bool:
    limit = system_resource.getrlimit(system_resource.RLIMIT_FSIZE)[0]
    may_write = limit == system_resource.RLIM_INFINITY or limit >= _LARGEST
    return may_write and any(sink.destination.is_file and sink.signal == "logs" for sink in telemetry.sinks)


def _line(telemetry: Telemetry, began: int, attributes: Mapping[str, Any]) -> bytes:
    from otel_rl.store.writer.otlp_json import encode_logs  # noqa: PLC0415 - not where all goes to a collector

    provider, severity = telemetry.logger_provider, SeverityNumber.INFO
    record = LogRecord(
        timestamp=began,
        observed_timestamp=clock.now(),
        severity_number=severity,
        severity_text=severity.name,
        attributes=attributes,
        event_name=events.RL_RUN_START.name,
    )
    resource = provider.resource if provider is not None else Resource.get_empty()
    return encode_logs([ReadableLogRecord(record, resource, _SCOPE)])
