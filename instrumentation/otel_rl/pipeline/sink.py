"""One exporter of one signal: opens it at the first export, counts delivered, kept and lost items."""

from __future__ import annotations

import time

# By name, before gevent can patch it.
from _thread import allocate_lock
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from otel_rl.core import addresses
from otel_rl.pipeline import outage, sdk_logging
from otel_rl.pipeline.unencodable import encodable
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_rl.pipeline.destination import Destination
    from otel_rl.pipeline.otlp_answer import OtlpAnswer

#: Reasons of losses that are reported while the program runs.
_REPORTED = frozenset({"export_failed", "not_opened", "rejected"})
#: Loss reason when the exporter did not answer before the deadline.
NO_ANSWER = "no answer in time"


class Exporter(Protocol):
    """The common part of the SDK's exporters of spans, metrics and log records."""

    def export(self, batch: Any, /) -> Any:
        """Deliver; the result's name is SUCCESS or FAILURE."""

    def shutdown(self) -> Any:
        """Close connections."""


class Keeper(Protocol):
    """Keeps what no destination took, see :mod:`otel_rl.pipeline.undelivered`."""

    def __call__(self, sink: Sink, data: Any, *, unanswered: bool) -> bool:
        """Keep ``data``; False where it cannot. ``unanswered``: the destination may have it."""


@dataclass(eq=False, repr=False)
class Sink:
    """Delivers one signal to one destination. Used by one I/O thread at a time; the counts may be read by any.

    An outage costs nothing: :attr:`in_outage` is set, and whoever called has the data to send again. What a destination
    refuses, or does not answer, goes to :attr:`keep`.
    """

    signal: str
    destination: Destination
    open_exporter: Callable[[], Exporter]
    count: Callable[[Any], int] = len
    keep: Keeper | None = None

    def __post_init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._exporter: Exporter | None = None
        self._explains = False
        self._in_use = allocate_lock()
        #: Identifier of the thread that exports, or did so last.
        self._exporting = 0
        #: What is being exported, or made ready for it. Whoever takes it out accounts for it.
        self._in_hand: deque[Any] = deque()
        #: Items delivered, lost by reason, and kept in files.
        self.delivered = 0
        self.losses: dict[str, int] = {}
        self.kept = 0
        #: Of those that were kept: the destination may have them.
        self.unanswered = 0
        #: The latest export did not deliver everything.
        self.failing = False
        #: The latest export met an outage, and when the first of this outage did (``time.monotonic()``).
        self.in_outage = False
        self._outage_since = 0.0
        #: Seconds that the destination asked to wait for.
        self.retry_after = 0.0
        #: Why the latest export failed; empty after a success.
        self.reason = ""
        #: The same of the latest export that did not deliver everything, for good.
        self.loss_reason = ""
        #: The exporter failed to open.
        self.unopened = False
        #: Its delivery was given up at the end of the process.
        self.timed_out = False

    def adopt(self, exporter: Exporter) -> None:
        """Use ``exporter``, which had to be opened at the start."""
        self._exporter = exporter

    def open(self) -> bool:
        """Open the exporter before there is something to export; False if it cannot be opened."""
        with self._in_use:
            return self._opened() is not None

    @property
    def busy(self) -> bool:
        """True while a thread exports."""
        return self._in_use.locked()

    @property
    def in_flight(self) -> int:
        """Items handed to the exporter without an answer so far."""
        try:
            return self.count(self._in_hand[0])
        except IndexError:
            return 0

    def hold(self, data: Any) -> None:
        """Account for ``data`` from now on: the time may be up while the exporter is being opened."""
        self._in_hand.append(data)

    def let_go(self) -> bool:
        """Return whether the data in hand is still this export's; at the end of the process it may have been taken."""
        try:
            self._in_hand.pop()
        except IndexError:
            return False
        return True

    def export(self, data: Any, **options: Any) -> bool:
        """Deliver ``data``; False when any of it was not delivered."""
        with self._in_use:
            if not self._in_hand:
                self.hold(data)
            self._exporting = sdk_logging.last_error.begin_export()
            self.in_outage = False
            try:
                delivered = self._deliver(data, options)
            finally:
                self.let_go()
            self.failing = not delivered
            return delivered

    def _deliver(self, data: Any, options: dict[str, Any]) -> bool:
        exporter = self._opened()
        if exporter is None:
            return self.let_go() and self._undelivered(data, "not_opened")
        if self._succeeds(exporter, data, options):
            return self._accepted(exporter, data)
        if getattr(exporter, "answer", None) is not None:
            return self._unaccepted(exporter, data)
        return self._rest_succeeds(exporter, data, options)

    def _opened(self) -> Exporter | None:
        if self._exporter is None:
            try:
                self._exporter = self.open_exporter()
            except Exception as error:  # noqa: BLE001 - no descriptor left, files out of reach, a library that is broken
                self._explain(error)
                self.unopened = True
                return None
            self.unopened = False
            self._explains = bool(getattr(self._exporter, "counts_drops", False))
        return self._exporter

    def _succeeds(self, exporter: Exporter, data: Any, options: dict[str, Any]) -> bool:
        sdk_logging.last_error.begin_export()
        try:
            succeeded = getattr(exporter.export(data, **options), "name", "") == "SUCCESS"
        except Exception as error:  # noqa: BLE001 - an exporter of anybody's, a value that cannot be encoded
            self._explain(error)
            return False
        answer: OtlpAnswer | None = getattr(exporter, "answer", None)
        if answer is not None:
            self.reason = answer.reason
            return answer.is_acceptance
        # An exporter over gRPC says why once a minute only (``DuplicateFilter`` of 1.45.1): then the reason before it.
        self.reason = "" if succeeded else self._said() or self.reason
        return succeeded

    def _said(self) -> str:
        return addresses.without_secrets(sdk_logging.last_error.reason(self._exporting))

    def _explain(self, error: Exception) -> None:
        self.reason = addresses.without_secrets(f"{type(error).__name__}: {error}")

    def _accepted(self, exporter: Exporter, data: Any) -> bool:
        """Count what was accepted; some of it may have been rejected for good."""
        number = self.count(data)
        if not self.let_go():
            return True
        rejected = min(getattr(getattr(exporter, "answer", None), "rejected", 0), number)
        if rejected and rejected == number:
            return self._undelivered(data, "rejected")
        self.delivered += number - rejected
        if rejected:
            self.lose("rejected", rejected)
        return not rejected

    def _unaccepted(self, exporter: Exporter, data: Any) -> bool:
        answer: OtlpAnswer = exporter.answer  # type: ignore[attr-defined]
        if not self.let_go():
            return False
        if answer.is_outage:
            self._meet_outage(answer)
            return False
        return self._undelivered(data, "export_failed", unanswered=answer.is_silence)

    def _meet_outage(self, answer: OtlpAnswer) -> None:
        now = time.monotonic()
        self.in_outage = True
        self.retry_after = answer.retry_after
        if not self.failing:
            self._outage_since = now
        elif now - self._outage_since >= outage.SHORT:
            outage.report(self.destination, self.reason, "what is recorded waits and is sent again", self.advice)

    def _rest_succeeds(self, exporter: Exporter, data: Any, options: dict[str, Any]) -> bool:
        """Deliver what can be encoded: one item that cannot fails its batch, and exporters do not say which one."""
        rest, bad = encodable(self.signal, self.destination.exporter, data, self.count)
        if bad:
            self.lose("unencodable", bad)
            if self.count(rest) and self._succeeds(exporter, rest, options):
                self._accepted(exporter, rest)
                return False
        if self.let_go() and self.count(rest):
            if self._explains:
                self._add("rejected", self.count(rest))
            else:
                self._undelivered(rest, "export_failed")
        return False

    def _undelivered(self, data: Any, reason: str, *, unanswered: bool = False) -> bool:
        """Keep ``data`` in files, or count it as lost for ``reason``."""
        number = self.count(data)
        if self.put_aside(data, unanswered=unanswered):
            outage.report(
                self.destination,
                self.reason,
                f"{outage.in_words({self.signal: self.kept})} kept in files so far",
                self.advice,
            )
        else:
            self.lose(reason, number)
        return False

    def put_aside(self, data: Any, *, unanswered: bool = False) -> bool:
        """Keep ``data`` in files; False where that is not possible."""
        if self.keep is None or not self.keep(self, data, unanswered=unanswered):
            return False
        number = self.count(data)
        self.loss_reason = self.reason or self.loss_reason
        self.kept += number
        if unanswered:
            self.unanswered += number
        return True

    def unkept(self, data: Any, *, unanswered: bool) -> None:
        """Count as lost what could not be written to files after all; the file store has said why."""
        number = self.count(data)
        self.kept -= number
        if unanswered:
            self.unanswered -= number
        self._add("export_failed", number)

    def lose(self, reason: str, number: int) -> None:
        """Count ``number`` items as lost."""
        self._add(reason, number)
        drops.count(self.signal, reason, number)
        if reason in _REPORTED:
            outage.report(
                self.destination, self.reason, f"{outage.in_words({self.signal: self.lost})} lost so far", self.advice
            )

    def _add(self, reason: str, number: int) -> None:
        self.loss_reason = self.reason or self.loss_reason
        self.losses[reason] = self.losses.get(reason, 0) + number

    @property
    def lost(self) -> int:
        """Items that were neither delivered nor kept, for whatever reason."""
        return sum(self.losses.copy().values())

    @property
    def advice(self) -> str:
        """Return the fix to suggest after losses."""
        return self.destination.advice(self.reason, unopened=self.unopened)

    @property
    def explains_losses(self) -> bool:
        """True when the exporter itself reports its drops and their reasons on stderr."""
        return self._explains

    def give_up(self, waiting: Sequence[Any], uncollected: int = 0, reason: str = NO_ANSWER) -> None:
        """Keep what waits and what is in flight, or count it as lost: it will not be exported.

        Args:
            waiting: What the exporter would have been given, call by call.
            uncollected: Items that are lost because they were not collected.
            reason: Why, unless the exporter has said it.
        """
        in_flight = self._taken()
        if not (waiting or in_flight or uncollected):
            return
        if not self.in_outage:
            self.timed_out = True
            # Without an export in progress, the thread's latest message is about another destination.
            said = self._said() if in_flight else ""
            self.reason = self.reason or said or reason
        was_sent = self._exporter is not None
        lost = uncollected
        lost += sum(self.count(data) for data in in_flight if not self.put_aside(data, unanswered=was_sent))
        lost += sum(self.count(data) for data in waiting if not self.put_aside(data))
        if lost:
            self._add("exit_timeout", lost)
            drops.count(self.signal, "exit_timeout", lost)

    def _taken(self) -> list[Any]:
        try:
            data = self._in_hand.pop()
        except IndexError:
            return []
        # The thread may still be filling a batch.
        return [list(data) if isinstance(data, list) else data] if self.count(data) else []

    def close(self) -> None:
        """Close the exporter; the next export opens another one."""
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            exporter.shutdown()

    def after_fork_in_child(self) -> None:
        """Drop the parent's exporter: its threads do not exist here, and its connections are shared."""
        self._reset()
