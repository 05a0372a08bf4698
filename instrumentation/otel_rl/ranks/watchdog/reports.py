"""The event of a hang with the stacks of all threads, the line on stderr, both again when it is over, and the gauge.

Every rank writes its line: the one that hangs is rarely the leading one, and the others say what they wait in.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry._logs import SeverityNumber

from otel_rl.core import stderr
from otel_rl.core.guard import guard
from otel_rl.flight_recorder.recorder import flight
from otel_rl.process import process_identity
from otel_rl.ranks.watchdog import POLLOUT, poll
from otel_rl.semconv import attributes, events, metrics
from otel_rl.telemetry import deferral, redaction
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_rl.ranks.watchdog.open_operations import Operations
    from otel_rl.training.steps import Step

_scope = Scope("process")

#: Where there is a ring.
_HINT = "; `otel-rl postmortem` shows who waits for whom"


class Hang(NamedTuple):
    """A hang: its duration, its limit and what is open."""

    #: Without progress.
    seconds: float
    limit: float
    inside: Operations
    #: Sentences about other ranks of the node.
    others: list[str]

    @property
    def words(self) -> str:
        """The hang as one line."""
        return "; ".join([f"no progress for {self.seconds:.0f} s {self.inside.words}", *self.others])


def observe(sees_hang: Callable[[], bool | None]) -> None:
    """Export whether a hang is seen, with each export; no value where ``sees_hang`` returns None."""

    def observed() -> Iterator[tuple[float, dict[str, str]]]:
        seen = sees_hang()
        if seen is not None:
            yield int(seen), {}

    _scope.observe(metrics.RL_HANG_ACTIVE, observed)


def hang(silence: Hang, stacks: str, step: Step | None) -> None:
    """Report that the process makes no progress."""
    summary, inside = silence.words, silence.inside
    text = f"{summary}\n{stacks}"
    with guard("watchdog.hang"):
        _scope.event(
            events.RL_HANG,
            body=redaction.text(text, "logs"),
            severity=SeverityNumber.ERROR,
            context=step.context if step is not None else None,
            attributes={
                attributes.RL_HANG_DURATION: silence.seconds,
                attributes.RL_HANG_LIMIT: silence.limit,
                attributes.RL_RANK: process_identity.current().rank,
                attributes.RL_LOOP_ITERATION: inside.iteration,
                attributes.RL_PHASE: inside.phase,
                attributes.TORCH_DISTRIBUTED_OPERATION: inside.operation,
                attributes.TORCH_DISTRIBUTED_GROUP_NAME: inside.group_name,
                attributes.TORCH_DISTRIBUTED_SEQUENCE_NUMBER: inside.number,
            },
        )
        deferral.hand_over()
    write_line(f"otel-rl: {who()} may hang: {summary}{_HINT if flight.ring is not None else ''}")


def hang_over(seconds: float, failed: str | None = None) -> None:
    """Report that the process makes progress again, and what has ``failed`` for that, if that has."""
    if failed is None:
        words = f"{who()} goes on after {seconds:.0f} s without progress"
    else:
        words = f"{failed} failed in {who()} after {seconds:.0f} s without progress"
    with guard("watchdog.hang_over"):
        _scope.event(
            events.RL_HANG_END,
            body=words,
            severity=SeverityNumber.INFO,
            attributes={attributes.RL_HANG_DURATION: seconds, attributes.RL_RANK: process_identity.current().rank},
        )
        deferral.hand_over()
    write_line(f"otel-rl: {words}")


def who() -> str:
    """Return the rank, or else the process, for a sentence."""
    rank = process_identity.current().rank
    return f"rank {rank}" if rank is not None else f"process {os.getpid()}"


def write_line(line: str) -> None:
    """Write where that does not block: the program may hang because nobody reads its standard error."""
    stream = sys.stderr
    if stream is not sys.__stderr__ or stream is None:
        stderr.write_line(line)
        return
    with suppress(OSError, ValueError):
        descriptor = stream.fileno()
        asked = poll()
        asked.register(descriptor, POLLOUT)
        if asked.poll(0):
            # Not through the stream: a thread that waits in its write holds its lock.
            os.write(descriptor, f"{line}\n".encode(errors="backslashreplace"))
