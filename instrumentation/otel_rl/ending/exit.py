"""The end of the process: one bounded delivery, and at most one line that says what became of the data."""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl import event_loops
from otel_rl.core import instrumentor_status, settings, threads
from otel_rl.core.guard import guard, replace_file
from otel_rl.core.import_hooks import hooks
from otel_rl.core.threads import Wakeup
from otel_rl.ending import exceptions, summary
from otel_rl.flight_recorder.recorder import flight
from otel_rl.pipeline import outage
from otel_rl.pipeline.last_delivery import LastDelivery
from otel_rl.pipeline.processors import IsolatedSpanProcessors
from otel_rl.process import process_identity
from otel_rl.ranks import watchdog
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import lifecycle, run_span

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType

    from otel_rl.ending.termination import TerminationWatch
    from otel_rl.pipeline.io_thread import IoRequest
    from otel_rl.pipeline.prompt_delivery import PromptDelivery
    from otel_rl.pipeline.providers import Telemetry

#: Times the timeout that the import of exporters may add to the end.
_IMPORT_SHARE = 2
#: Seconds that the files have at least when the network has used up the time.
_AFTER_NETWORK = 0.5
#: Times the timeout that files may take which are being written, slowly.
_SLOW_FILES = 10

#: A descriptor that is never open. faulthandler writes there before it calls the action that was there before it.
_NOWHERE = 2**31 - 1

_telemetry: Telemetry | None = None
#: Of a worker that may be killed after any call.
_prompt_delivery: PromptDelivery | None = None
_summarized = False
#: True from the beginning of the last delivery of the main thread.
_exiting = False
#: What notices SIGTERM from the first record on.
_watch: TerminationWatch | None = None


class TerminationHandler:
    """Handler of SIGTERM where the program has none: it delivers, then ends the process by the default action.

    It equals ``SIG_DFL``, for which it stands: libraries compare ``signal.getsignal`` with that, and call any other
    handler from theirs, as ``_SignalConnector`` of lightning 2 does.
    """

    __slots__ = ()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Deliver and end the process; a flush in the background where a handler of the program calls this one."""
        if signal.getsignal(signal.SIGTERM) is not self:
            flush_soon()
        elif _watch is None:
            end_by_default_action()
        else:
            _watch.handle(is_exiting=_exiting)

    def __eq__(self, other: object) -> bool:
        return other is self or other is signal.SIG_DFL

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "<SIG_DFL after a flush of otel-rl>"


handler = TerminationHandler()


def register(telemetry: Telemetry) -> None:
    """Deliver at exit."""
    global _telemetry
    _telemetry = telemetry
    lifecycle.deliver_news, lifecycle.prepare_delivery = deliver_news, prepare_delivery
    _stand_for_default_action()
    exceptions.watch()
    hooks.after_import("IPython.core.interactiveshell", _follow_notebook)
    flight.arm()
    watchdog.arm()
    event_loops.arm()
    atexit.register(_at_exit)


def _follow_notebook(module: ModuleType) -> None:
    from otel_rl.ending import notebook_cells  # noqa: PLC0415 - few processes are notebooks

    notebook_cells.follow(module)


def _stand_for_default_action() -> None:
    """Put our handler of SIGTERM where the default action is; until the first record the kernel still has that one.

    A server (uvicorn) has a handler of its own while it serves, then puts back what ``signal.signal`` returned, and
    raises the signal again. Other programs are in C code for minutes, where no handler of Python runs: for them
    :class:`~otel_rl.ending.termination.TerminationWatch` notices the signal, through faulthandler. Only the main thread
    may register with faulthandler without a race against the program; what is registered any thread may change.
    """
    if (
        not hasattr(faulthandler, "register")
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        return
    # Unregistering restores the action of before, which ``signal.signal`` has replaced meanwhile.
    end_at_once()
    signal.signal(signal.SIGTERM, handler)
    faulthandler.unregister(signal.SIGTERM)
    end_at_once()
    signal.siginterrupt(signal.SIGTERM, False)
    # In the thread that records, and where only the program's own tracer does, in that of the first export.
    lifecycle.at_first_record(_watch_termination)
    threads.preparations.append(_watch_termination)


def end_at_once() -> None:
    """Let SIGTERM end the process without a delivery, unless the program has a handler of its own."""
    faulthandler.register(signal.SIGTERM, file=_NOWHERE, all_threads=False, chain=True)


def end_by_default_action() -> None:
    """End the process as SIGTERM does by default; leave it to the program's handler if it has one by now."""
    if signal.getsignal(signal.SIGTERM) is handler:
        faulthandler.unregister(signal.SIGTERM)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    signal.raise_signal(signal.SIGTERM)


def _watch_termination() -> None:
    """Watch from the first record on. Called again and again."""
    global _watch
    with suppress(ValueError):
        threads.preparations.remove(_watch_termination)
        # Where nothing more can be imported or opened, SIGTERM ends the process at once, as without us.
        with suppress(Exception):
            from otel_rl.ending.termination import TerminationWatch  # noqa: PLC0415 - not before the first record

            _watch = TerminationWatch(handler, _deliver_before_termination, end_at_once, end_by_default_action)
            _watch.start()


def _deliver_before_termination(timeout: float) -> bool:
    """Return whether this has delivered; False where the main thread is at it, in its last delivery."""
    run_span.stopped_by(signal.SIGTERM.name)
    if not _exiting:
        deliver(timeout)
    return not _exiting


def after_fork_in_child() -> None:
    """Let the child end on its own. A SIGTERM, which ends workers of pools, delivers once the child has a record."""
    global _summarized, _exiting, _watch, _prompt_delivery
    _prompt_delivery = None
    _summarized = _exiting = False
    if _watch is not None:
        _watch.close_in_child()
        _watch = None
    if signal.getsignal(signal.SIGTERM) is handler and _watch_termination not in threads.preparations:
        threads.preparations.append(_watch_termination)


def _at_exit() -> None:
    global _exiting
    _exiting = True
    with guard("exit.exception"):
        exceptions.record_ending()
    if _telemetry is not None:
        _telemetry.store.leaves_status = True
    # A second Ctrl-C: the user does not want to wait, nor to read a traceback of ours.
    with suppress(KeyboardInterrupt):
        deliver()
        processors = getattr(getattr(_telemetry, "tracer_provider", None), "_active_span_processor", None)
        if isinstance(processors, IsolatedSpanProcessors):
            processors.end_foreign()
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
    # All threads are asked before the first wait.
    results = [request.wait() for request in _request_flush(telemetry, deadline)]
    return all(results)


def _request_flush(telemetry: Telemetry, deadline: float) -> list[IoRequest]:
    telemetry.gate.force_open()
    lifecycle.run_flush_callbacks()
    return [thread.post(partial(thread.flush, deadline), deadline) for thread in telemetry.threads if thread.needed]


def flush_soon() -> None:
    """Have what has been recorded delivered in the background."""
    with guard("exit.flush"):
        if _telemetry is not None:
            _request_flush(_telemetry, time.monotonic() + settings.current().exit_timeout)


def deliver_news(seconds: float = 0.0) -> list[IoRequest]:
    """Have what is new delivered, see :mod:`otel_rl.pipeline.prompt_delivery`; return what the caller may wait for."""
    with guard("exit.news"):
        delivery = _prompt_deliveries()
        return [] if delivery is None else delivery.request(seconds)
    return []


def prepare_delivery() -> None:
    """Have the exporters opened that are imported for it."""
    with guard("exit.news"):
        delivery = _prompt_deliveries()
        if delivery is not None:
            delivery.prepare()


def _prompt_deliveries() -> PromptDelivery | None:
    global _prompt_delivery
    if _prompt_delivery is None and _telemetry is not None:
        from otel_rl.pipeline.prompt_delivery import PromptDelivery  # noqa: PLC0415 - for Ray's workers only

        _prompt_delivery = PromptDelivery(_telemetry)
    return _prompt_delivery


def deliver(longest: float | None = None) -> None:
    """Deliver everything within ``OTEL_RL_EXIT_TIMEOUT`` seconds, close, and print the last line.

    The import of an exporter may take up to twice the time more, unless ``longest`` limits the whole.

    What is recorded later is exported as before: this closes nothing for good.
    """
    telemetry = _telemetry
    if telemetry is None:
        return
    timeout = settings.current().exit_timeout
    deadline = time.monotonic() + (timeout if longest is None else min(timeout, longest))
    latest = deadline + (_IMPORT_SHARE * timeout if longest is None else 0.0)
    with guard("exit.event_loops"):
        event_loops.end()
    with guard("exit.watchdog"):
        watchdog.end()
    with guard("exit"):
        outage.be_silent()
        lifecycle.run_shutdown_callbacks()
        waited = _finish_sinks(longest)
        # Nothing is imported at the end: what was shown has loaded it.
        presence = sys.modules.get("otel_rl.pipeline.presence")
        if presence is not None:
            presence.withdraw(telemetry)
        _deliver(telemetry, deadline + waited, latest + waited)
        _summarize(telemetry)
    if _watch is not None and _exiting:
        _watch.end()


def _finish_sinks(longest: float | None) -> float:
    """Hand out the end of the run to the program's sinks; return the seconds that this adds to the end."""
    # Nothing is imported at the end: what has added a sink has loaded it.
    sinks = sys.modules.get("otel_rl.sinks.following")
    with guard("exit.sinks"):
        return 0.0 if sinks is None else float(sinks.follower.finish(longest))
    return 0.0


def _deliver(telemetry: Telemetry, deadline: float, latest: float) -> None:
    telemetry.gate.force_open()
    network, files = telemetry.network, telemetry.files
    network_ended, caller = Wakeup(), threading.get_ident()
    deliveries: list[LastDelivery] = []

    def await_network() -> None:
        """Wait until the network has had its time; in the caller, if the interpreter starts no thread for the files."""
        if threading.get_ident() == caller:
            for delivery in deliveries:
                delivery.wait()
        else:
            network_ended.wait(max(deadline, latest) - time.monotonic())

    if network.needed:
        deliveries.append(LastDelivery(network, deadline, latest=latest, may_hand_over=True))
        # What the network cannot deliver is written afterwards; without a thread its time has passed by now.
        deadline = max(deadline, time.monotonic()) + min(_AFTER_NETWORK, settings.current().exit_timeout)
    else:
        network_ended.set()
    has_work = deliveries or files.needed or flight.ring is not None or settings.current().status_file is not None
    if has_work or _children_may_have_recorded(telemetry):
        deliveries.append(_delivery_to_files(telemetry, deadline, latest, await_network))
    for delivery in deliveries:
        delivery.wait()
        network_ended.set()
    if telemetry.undelivered is not None:
        telemetry.undelivered.give_up()


def _delivery_to_files(
    telemetry: Telemetry, deadline: float, latest: float, await_network: Callable[[], None]
) -> LastDelivery:
    """Write what is left: a file system that does not answer has until the deadline, one that is slow goes on."""
    timeout = settings.current().exit_timeout
    longest = deadline + _SLOW_FILES * timeout

    def finish() -> None:
        await_network()
        if telemetry.undelivered is not None:
            telemetry.undelivered.flush(longest)
        _finish_files(telemetry)

    return LastDelivery(
        telemetry.files,
        deadline,
        finish,
        latest=latest,
        progress=lambda: telemetry.store.files.progressed,
        patience=timeout,
        longest=longest,
    )


def _children_may_have_recorded(telemetry: Telemetry) -> bool:
    """Return whether this process reports for the run, has no file of its own, and has waited for its children.

    A driver has a file that holds its begin and end, and its workers may be nobody's children.
    """
    who = process_identity.current()
    if settings.current().quiet or not who.leads or not any(sink.destination.is_file for sink in telemetry.sinks):
        return False
    if who.role == RlRoleValues.DRIVER:
        return True
    spent = os.times()
    return telemetry.store.files.directory is None and spent.children_user + spent.children_system > 0


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
    replace_file(temporary, path)
