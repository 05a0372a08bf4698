"""The run or writer of a tracker that the program logs to, for what we write there: ``OTEL_RL_WRITE_BACK``.

An instrumentor of a tracker notes it with each log call, and says when it is about to be closed. Of several that are
open at once, for training and validation, the first one counts: its series stay in one place. One that was opened
before a fork is never handed out in the child: the thread behind it exists in the parent only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Trackers that are written to; of others nothing is noted.
_wanted: frozenset[str] = frozenset()
#: Tracker -> the first of what the program logs to that is not closed.
_open: dict[str, Any] = {}
#: What the process above had open. Kept, so that no other object can be taken for one of them.
_inherited: list[Any] = []
_catch_up: list[Callable[[], None]] = []
_at_first: list[Callable[[], object]] = []


def follow(trackers: Iterable[str], catch_up: Callable[[], None], at_first: Callable[[], object]) -> None:
    """Note the runs of ``trackers``.

    ``catch_up`` is called before one is closed, ``at_first`` once, when the first one has been noted.
    """
    global _wanted
    _wanted = frozenset(trackers)
    _catch_up[:], _at_first[:] = [catch_up], [at_first]


def note(tracker: str, writer: Any) -> None:
    """Note that the program logs to ``writer``."""
    known = _open.get(tracker)
    if tracker not in _wanted or known is writer or not (known is None or _has_ended(known)):
        return
    if any(writer is old for old in _inherited):
        return
    _open[tracker] = writer
    while _at_first:
        with guard("open_trackers.first"):
            _at_first.pop()()


def closing(tracker: str, writer: Any) -> None:
    """Note that the program closes ``writer``: what waits is written first, and nothing after it."""
    if writer is not None and _open.get(tracker) is writer:
        for catch_up in _catch_up:
            with guard("open_trackers.closing"):
                catch_up()
        _open.pop(tracker, None)


def _has_ended(writer: Any) -> bool:
    """Return whether a writer was closed and nobody said so, as a run of wandb is by its ``with`` block."""
    return getattr(writer, "_is_finished", False) is True or getattr(writer, "file_writer", writer) is None


def find(tracker: str) -> Any:
    """Return what the program logs to; None where it has logged nothing in this process, or has closed it."""
    return _open.get(tracker)


def _forget() -> None:
    _inherited.extend(_open.values())
    _open.clear()


lifecycle.after_fork_in_child(_forget)
