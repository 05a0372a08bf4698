"""One exporter of one signal: opens it at the first export, counts delivered and lost items."""

from __future__ import annotations

# By name, before gevent can patch it.
from _thread import allocate_lock
from typing import TYPE_CHECKING, Any, Protocol

from otel_rl.pipeline import outage, sdk_logging
from otel_rl.pipeline.unencodable import encodable
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.pipeline.destination import Destination

#: What an encoder raises for a value that it cannot write; the network raises other errors.
_ENCODING_ERRORS = (TypeError, ValueError, AttributeError, KeyError, OverflowError)

#: Loss reasons that mean an unreachable destination.
_OUTAGES = frozenset({"export_failed", "not_opened"})
#: Loss reason when the exporter did not answer before the deadline.
NO_ANSWER = "no answer in time"


class Exporter(Protocol):
    """The common part of the SDK's exporters of spans, metrics and log records."""

    def export(self, batch: Any, /) -> Any:
        """Deliver; the result's name is SUCCESS or FAILURE."""

    def shutdown(self) -> Any:
        """Close connections."""


class Sink:
    """Delivers one signal to one destination. Used by one I/O thread at a time; the counts may be read by any."""

    def __init__(
        self,
        signal: str,
        destination: Destination,
        open_exporter: Callable[[], Exporter],
        count: Callable[[Any], int] = len,
    ) -> None:
        self.signal = signal
        self.destination = destination
        self._open = open_exporter
        self._count = count
        self._reset()

    def _reset(self) -> None:
        self._exporter: Exporter | None = None
        self._explains = False
        self._in_use = allocate_lock()
        #: Identifier of the thread that exports, or did so last.
        self._exporting = 0
        #: Items delivered, lost by reason, and handed to the exporter without an answer so far.
        self.delivered = 0
        self.losses: dict[str, int] = {}
        self.in_flight = 0
        #: The latest export did not deliver everything.
        self.failing = False
        #: Why the latest export failed; empty after a success.
        self.reason = ""
        #: The exporter failed to open.
        self.unopened = False
        #: Its delivery was given up at the end of the process.
        self.timed_out = False

    def adopt(self, exporter: Exporter) -> None:
        """Use ``exporter``, which had to be opened at the start."""
        self._exporter = exporter

    @property
    def busy(self) -> bool:
        """True while a thread exports."""
        return self._in_use.locked()

    def export(self, data: Any, **options: Any) -> bool:
        """Deliver ``data``; False when any of it was lost."""
        with self._in_use:
            return self._deliver(data, options)

    def _deliver(self, data: Any, options: dict[str, Any]) -> bool:
        self._exporting = sdk_logging.last_error.begin_export()
        number = self._count(data)
        self.in_flight = number
        try:
            exporter = self._opened()
            if exporter is None:
                self.failing = True
                self.lose("not_opened", number)
                return False
            delivered = self._export(exporter, data, number, options)
            self.failing = not delivered
            return delivered
        finally:
            self.in_flight = 0

    def _opened(self) -> Exporter | None:
        if self._exporter is None:
            try:
                self._exporter = self._open()
            except Exception as error:  # noqa: BLE001 - no descriptor left, files out of reach, a library that is broken
                self.reason = f"{type(error).__name__}: {error}"
                self.unopened = True
                return None
            self.unopened = False
            self._explains = bool(getattr(self._exporter, "counts_drops", False))
        return self._exporter

    def _export(self, exporter: Exporter, data: Any, number: int, options: dict[str, Any]) -> bool:
        if self._succeeds(exporter, data, options):
            self.delivered += number
            return True
        # One item that cannot be encoded fails the whole batch, and exporters do not say which one.
        rest, bad = encodable(self.signal, self.destination.exporter, data, self._count)
        if not bad:
            self._refused(number)
            return False
        self.lose("unencodable", bad)
        if number > bad and self._succeeds(exporter, rest, options):
            self.delivered += number - bad
        elif number > bad:
            self._refused(number - bad)
        return False

    def _succeeds(self, exporter: Exporter, data: Any, options: dict[str, Any]) -> bool:
        sdk_logging.last_error.begin_export()
        try:
            succeeded = getattr(exporter.export(data, **options), "name", "") == "SUCCESS"
        except _ENCODING_ERRORS as error:
            self.reason = f"{type(error).__name__}: {error}"
            return False
        except Exception as error:  # noqa: BLE001 - an exporter of anybody's
            self.reason = f"{type(error).__name__}: {error}"
            return False
        # An exporter over gRPC says why once a minute only (``DuplicateFilter`` of 1.45.1): then the reason before it.
        self.reason = "" if succeeded else sdk_logging.last_error.reason(self._exporting) or self.reason
        return succeeded

    def _refused(self, number: int) -> None:
        if self._explains:
            self._add("rejected", number)
        else:
            self.lose("export_failed", number)

    def lose(self, reason: str, number: int) -> None:
        """Count ``number`` items as lost."""
        self._add(reason, number)
        drops.count(self.signal, reason, number)
        if reason in _OUTAGES:
            outage.report(self.destination, self.reason, {self.signal: self.lost}, self.advice)

    def _add(self, reason: str, number: int) -> None:
        self.losses[reason] = self.losses.get(reason, 0) + number

    @property
    def lost(self) -> int:
        """Items that were not delivered, for whatever reason."""
        return sum(self.losses.copy().values())

    @property
    def advice(self) -> str:
        """Return the fix to suggest after losses."""
        return self.destination.advice(self.reason, unopened=self.unopened)

    @property
    def explains_losses(self) -> bool:
        """True when the exporter itself reports its drops and their reasons on stderr."""
        return self._explains

    def give_up(self, waiting: int) -> None:
        """Count waiting and in-flight items as lost: the deadline has passed."""
        left = waiting + self.in_flight
        if not left:
            return
        self.timed_out = True
        # Without an export in progress, the thread's latest message is about another destination.
        said = sdk_logging.last_error.reason(self._exporting) if self.in_flight else ""
        self.reason = self.reason or said or NO_ANSWER
        self._add("exit_timeout", left)
        self.in_flight = 0
        drops.count(self.signal, "exit_timeout", left)

    def close(self) -> None:
        """Close the exporter; the next export opens another one."""
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            exporter.shutdown()

    def after_fork_in_child(self) -> None:
        """Drop the parent's exporter: its threads do not exist here, and its connections are shared."""
        self._reset()
