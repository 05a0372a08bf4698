"""Sends the files of a run, one request after the other, and waits while the destination is away."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.pipeline.otlp_answer import Outcome
from otel_rl.replay.batches import batches
from otel_rl.replay.ledger import ACKNOWLEDGED, AMBIGUOUS, REFUSED, SENT
from otel_rl.store.reader.compressed import former
from otel_rl.store.reader.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from otel_rl.replay.batches import Batch
    from otel_rl.replay.destinations import GrpcDestination, HttpDestination, Reply
    from otel_rl.replay.ledger import Ledger
    from otel_rl.store.reader import RunSource, SignalFile

#: Seconds for which a destination that has answered may be away.
PATIENCE = 60.0
#: First and longest pause in seconds while the destination is away.
_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
#: Answers that are about one request; the destination may take the others.
_OF_ONE_REQUEST = ("code: 400", "code: 413", "code: 422", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")


def folder_of(source: RunSource) -> Path:
    """Return the folder of the run, where its ledgers lie; ``source`` may be one process of it."""
    is_process = any(file.process is not None and file.path.parent == source.path for file in source.files)
    return source.path.parent if is_process else source.path


class Stopped(Exception):  # noqa: N818 - no error of the program
    """The destination takes nothing, or not now."""

    def __init__(self, signal: str, reply: Reply, waited: float) -> None:
        super().__init__(reply.answer.reason)
        self.signal = signal
        self.reply = reply
        self.waited = waited


@dataclass(slots=True, eq=False, repr=False)
class RunReplay:
    """One replay of a run.

    Attributes:
        source: the run.
        ledgers: by signal, what its destination has.
        destinations: by signal; files of other signals are left.
        patience: seconds for which the destination may be away; None: :data:`PATIENCE` once it was there, since one
            that was never there will not come within a minute.
        advance: called with the bytes of the files that need no more sending.
        sent, repeated, rejected, refused: items by signal: acknowledged now, of them sent before without an answer,
            rejected, and refused.
        reasons: why items were rejected or refused, once each.
        unread: files that are gone, or cannot be read.
        problems: of the files.
    """

    source: RunSource
    ledgers: Mapping[str, Ledger]
    destinations: Mapping[str, HttpDestination | GrpcDestination]
    patience: float | None
    advance: Callable[[int], object] = lambda _: None
    sent: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, None] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    problems: Unreadable = field(default_factory=Unreadable)

    def run(self) -> None:
        """Send everything.

        Raises:
            Stopped: the destination refuses, or is away for too long.
            OSError: the ledger cannot be written.
        """
        for file in self.source.files:
            if file.signal in self.destinations:
                self._send_file(file)

    def _send_file(self, file: SignalFile) -> None:
        # A file that has been compressed since is the same to the ledger, and so are the places in it.
        name = former(file.path).relative_to(folder_of(self.source)).as_posix()
        known = self.ledgers[file.signal].acknowledged.get(name, {})
        self.advance(sum(end - begin for begin, end in known.items()))
        unsent = batches(file.path, name, file.signal, known.copy(), self.problems)
        while True:
            try:
                batch = next(unsent, None)
            except OSError as error:
                # A job that runs removes its oldest files where the store is full.
                self.unread.append(f"{name} ({error.strerror or error})")
                return
            if batch is None:
                return
            self._send(batch)
            self.advance(batch.end - batch.begin)

    def _send(self, batch: Batch) -> None:
        destination, pause, since = self.destinations[batch.signal], _PAUSE, time.monotonic()
        is_repeated = False
        while True:
            is_repeated |= self.ledgers[batch.signal].is_ambiguous(batch)
            self.ledgers[batch.signal].note(batch, SENT)
            reply = destination.send(batch)
            if self._is_done(batch, reply, is_repeated=is_repeated):
                return
            waited, patience = time.monotonic() - since, self._patience_with(reply)
            if reply.answer.outcome not in (Outcome.RETRY, Outcome.UNANSWERED) or waited >= patience:
                raise Stopped(batch.signal, reply, waited)
            time.sleep(min(max(pause, reply.answer.retry_after), max(patience - waited, 0.1)))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _patience_with(self, reply: Reply) -> float:
        """Return for how many seconds to ask again: not at all where the first answer says that it is in vain."""
        if reply.is_other_protocol or (self.patience is None and reply.is_unreachable):
            return 0.0
        if self.patience is None:
            self.patience = PATIENCE
        return self.patience

    def _is_done(self, batch: Batch, reply: Reply, *, is_repeated: bool) -> bool:
        """Write down what became of the request; return whether nothing more is to be done about it."""
        answer = reply.answer
        if answer.outcome in (Outcome.ACCEPTED, Outcome.REJECTED):
            self.patience = PATIENCE if self.patience is None else self.patience
            self.ledgers[batch.signal].note(
                batch, ACKNOWLEDGED, **({"rejected": answer.rejected} if answer.rejected else {})
            )
            self.sent[batch.signal] += batch.items - answer.rejected
            self.repeated[batch.signal] += batch.items if is_repeated else 0
            self._complain(self.rejected, batch, answer.rejected, answer.reason)
            return True
        state = AMBIGUOUS if reply.may_have_arrived or is_repeated else REFUSED
        self.ledgers[batch.signal].note(batch, state, reason=answer.reason)
        if answer.outcome is Outcome.REFUSED and answer.reason.startswith(_OF_ONE_REQUEST):
            self._complain(self.refused, batch, batch.items, answer.reason)
            return True
        return False

    def _complain(self, counts: Counter[str], batch: Batch, items: int, reason: str) -> None:
        if items:
            counts[batch.signal] += items
            self.reasons[reason] = None

    def close(self) -> None:
        """Close the connections and the ledger."""
        for destination in self.destinations.values():
            with suppress(Exception):
                destination.close()
        for ledger in set(self.ledgers.values()):
            ledger.close()
