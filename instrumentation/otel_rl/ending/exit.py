"""The end of the process: one bounded delivery, and at most one line that says what became of the data."""

from __future__ import annotations

import atexit
import json
import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl import event_loops
from otel_rl.core import instrumentor_status, settings
from otel_rl.core.guard import guard
from otel_rl.ending import exceptions, summary
from otel_rl.flight_recorder.recorder import flight
from otel_rl.pipeline import outage
from otel_rl.pipeline.last_delivery import LastDelivery
from otel_rl.process import process_identity
from otel_rl.ranks import watchdog
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from otel_rl.pipeline.providers import Telemetry

#: Times the timeout that the import of exporters may add to the end.
_IMPORT_SHARE = 2

_telemetry: Telemetry | None = None
_summarized = False


def register(telemetry: Telemetry) -> None:
    """Deliver at exit."""
    global _telemetry
    _telemetry = telemetry
    exceptions.watch()
    flight.arm()
    watchdog.arm()
    event_loops.arm()
    atexit.register(_at_exit)


def after_fork_in_child() -> None:
    """Let the child end on its own."""
    global _summarized
    _summarized = False


def _at_exit() -> None:
    with guard("exit.exception"):
        exceptions.record_ending()
    if _telemetry is not None:
        _telemetry.store.leaves_status = True
    # A second Ctrl-C: the user does not want to wait, nor to read a traceback of ours.
    with suppress(KeyboardInterrupt):
        deliver()
    exceptions.keep_interrupt_exit_code()


def flush(timeout: float) -> bool:
    """Deliver what has been recorded within ``timeout`` seconds; True when all of it was delivered.

    Any thread may call it at any time, a signal handler too, and while another call waits.
    """
    with guard("exit.flush"):
        if _telemetry is not None:
            return _flush(_telemetry, time.monotonic() + timeout)
    return False


def _flush(telemetry: Telemetry, deadline: float) -> bool:
    telemetry.gate.force_open()
    # All threads are asked before the first wait.
    requests = [thread.post(partial(thread.flush, deadline), deadline) for thread in telemetry.threads if thread.needed]
    results = [request.wait() for request in requests]
    return all(results)


def deliver() -> None:
    """Deliver everything within ``OTEL_RL_EXIT_TIMEOUT`` seconds, close, and print the last line.

    The import of an exporter may take up to twice the time more.

    What is recorded later is exported as before: this closes nothing for good.
    """
    telemetry = _telemetry
    if telemetry is None:
        return
    timeout = settings.current().exit_timeout
    deadline = time.monotonic() + timeout
    with guard("exit.event_loops"):
        event_loops.end()
    with guard("exit.watchdog"):
        watchdog.end()
    with guard("exit"):
        outage.be_silent()
        lifecycle.run_shutdown_callbacks()
        _deliver(telemetry, deadline, deadline + _IMPORT_SHARE * timeout)
        _summarize(telemetry)


def _deliver(telemetry: Telemetry, deadline: float, latest: float) -> None:
    telemetry.gate.force_open()
    network, files = telemetry.network, telemetry.files
    deliveries = []
    if network.needed:
        deliveries.append(LastDelivery(network, deadline, latest=latest, may_hand_over=True))
    has_work = files.needed or flight.ring is not None or settings.current().status_file is not None
    if has_work or _children_may_have_recorded(telemetry):
        deliveries.append(LastDelivery(files, deadline, partial(_finish_files, telemetry), latest=latest))
    for delivery in deliveries:
        delivery.wait()


def _children_may_have_recorded(telemetry: Telemetry) -> bool:
    """Return whether this process reports for the run, has no file of its own, and has waited for its children."""
    if settings.current().quiet or not process_identity.current().leads or telemetry.store.files.directory is not None:
        return False
    spent = os.times()
    return spent.children_user + spent.children_system > 0 and any(sink.destination.is_file for sink in telemetry.sinks)


def _finish_files(telemetry: Telemetry) -> None:
    """Do the last work of the files' thread; a stalled file system stops it here and not the program."""
    telemetry.store.end(exceptions.ending)
    with guard("exit.children"):
        if _children_may_have_recorded(telemetry):
            telemetry.store.find_children()
    with guard("exit.status_file"):
        _write_status()
    with guard("exit.flight_recorder"):
        telemetry.ring_copies.finish(telemetry.store.files.directory, exceptions.ending)


def _summarize(telemetry: Telemetry) -> None:
    global _summarized
    if not _summarized:
        _summarized = True
        summary.write(telemetry)


def _write_status() -> None:
    path = settings.current().status_file
    if path is None:
        return
    # Several processes may be told the same file: a reader sees one whole answer, the last one's.
    temporary = Path(f"{path}.{os.getpid()}")
    temporary.write_text(json.dumps(instrumentor_status.snapshot()), encoding="utf-8")
    temporary.replace(path)
