"""Sends the files of a run, one request after the other, and waits while the destination is away."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
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


class RunReplay:
    """One replay of a run.

    Args:
        source: the run.
        ledgers: by signal, what its destination has.
        destinations: by signal; files of other signals are left.
        patience: seconds for which the destination may be away; None: :data:`PATIENCE` once it was there.
        advance: called with the bytes of the files that need no more sending.
    """

    def __init__(
        self,
        source: RunSource,
        ledgers: Mapping[str, Ledger],
        destinations: Mapping[str, HttpDestination | GrpcDestination],
        patience: float | None,
        advance: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._source = source
        self._ledgers = ledgers
        self._destinations = destinations
        #: None until the destination has answered: one that was never there will not come within a minute.
        self._patience = patience
        self._advance = advance
        #: Items by signal: acknowledged now, of them sent before without an answer, rejected, and refused.
        self.sent: Counter[str] = Counter()
        self.repeated: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        #: Why items were rejected or refused, once each.
        self.reasons: dict[str, None] = {}
        #: Files that are gone, or cannot be read.
        self.unread: list[str] = []
        self.problems = Unreadable()

    def run(self) -> None:
        """Send everything.

        Raises:
            Stopped: the destination refuses, or is away for too long.
            OSError: the ledger cannot be written.
        """
        for file in self._source.files:
            if file.signal in self._destinations:
                self._send_file(file)

    def _send_file(self, file: SignalFile) -> None:
        # A file that has been compressed since is the same to the ledger, and so are the places in it.
        name = former(file.path).relative_to(folder_of(self._source)).as_posix()
        known = self._ledgers[file.signal].acknowledged.get(name, {})
        self._advance(sum(end - begin for begin, end in known.items()))
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
            self._advance(batch.end - batch.begin)

    def _send(self, batch: Batch) -> None:
        destination, pause, since = self._destinations[batch.signal], _PAUSE, time.monotonic()
        is_repeated = False
        while True:
            is_repeated |= self._ledgers[batch.signal].is_ambiguous(batch)
            self._ledgers[batch.signal].note(batch, SENT)
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
        if reply.is_other_protocol or (self._patience is None and reply.is_unreachable):
            return 0.0
        if self._patience is None:
            self._patience = PATIENCE
        return self._patience

    def _is_done(self, batch: Batch, reply: Reply, *, is_repeated: bool) -> bool:
        """Write down what became of the request; return whether nothing more is to be done about it."""
        answer = reply.answer
        if answer.outcome in (Outcome.ACCEPTED, Outcome.REJECTED):
            self._patience = PATIENCE if self._patience is None else self._patience
            self._ledgers[batch.signal].note(
                batch, ACKNOWLEDGED, **({"rejected": answer.rejected} if answer.rejected else {})
            )
            self.sent[batch.signal] += batch.items - answer.rejected
            self.repeated[batch.signal] += batch.items if is_repeated else 0
            self._complain(self.rejected, batch, answer.rejected, answer.reason)
            return True
        state = AMBIGUOUS if reply.may_have_arrived or is_repeated else REFUSED
        self._ledgers[batch.signal].note(batch, state, reason=answer.reason)
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
        for destination in self._destinations.values():
            with suppress(Exception):
                destination.close()
        for ledger in set(self._ledgers.values()):
            ledger.close()
