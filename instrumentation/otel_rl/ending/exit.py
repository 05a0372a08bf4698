"""The end of the process: one bounded delivery, and at most one line that says what became of the data."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl import instrumentor_status, settings
from otel_rl.ending import exceptions, summary
from otel_rl.internal_errors import guard
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from otel_rl.pipeline.providers import Telemetry

_telemetry: Telemetry | None = None
_done = False


def register(telemetry: Telemetry | None) -> None:
    """Deliver at exit; ``None`` where a configuration file has set up providers of its own."""
    global _telemetry
    _telemetry = telemetry
    exceptions.watch()
    atexit.register(_at_exit)


def after_fork_in_child() -> None:
    """The child ends on its own."""
    global _done
    _done = False


def _at_exit() -> None:
    with guard("exit.exception"):
        exceptions.record_ending()
    # A second Ctrl-C: the user does not want to wait, nor to read a traceback of ours.
    with suppress(KeyboardInterrupt):
        deliver()
    exceptions.keep_interrupt_exit_code()


def deliver() -> None:
    """Close what is open, deliver what is queued within ``OTEL_RL_EXIT_TIMEOUT`` seconds, once per process."""
    global _done
    if _done:
        return
    _done = True
    deadline = time.monotonic() + settings.current().exit_timeout
    with guard("exit"):
        lifecycle.run_shutdown_callbacks()
        if _telemetry is None:
            _shut_down_configured(deadline)
        else:
            _deliver(_telemetry, deadline)
    with guard("exit.status_file"):
        _write_status()


def _deliver(telemetry: Telemetry, deadline: float) -> None:
    for part in telemetry.parts:
        part.begin_close()
    for part in telemetry.parts:
        part.finish_close(deadline)
    telemetry.store.end(exceptions.ending)
    summary.write(telemetry)


def _shut_down_configured(deadline: float) -> None:
    """Shut the file's providers down beside us, so that a hanging one costs no more than our time limit."""
    from otel_rl.pipeline.config_file import providers  # noqa: PLC0415 - only with a configuration file

    threads = []
    for provider in providers():
        atexit.unregister(provider.shutdown)
        thread = threading.Thread(target=provider.shutdown, name="otel-rl-shutdown", daemon=True)
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))


def _write_status() -> None:
    path = settings.current().status_file
    if path is None:
        return
    # Several processes may be told the same file: a reader sees one whole answer, the last one's.
    temporary = Path(f"{path}.{os.getpid()}")
    temporary.write_text(json.dumps(instrumentor_status.snapshot()), encoding="utf-8")
    temporary.replace(path)
