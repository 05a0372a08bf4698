"""Reports on stderr that a destination is unreachable while the program runs; rate limited."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otel_rl.pipeline.destination import answer
from otel_rl.store.writer.process_store import warn_once_per_node

if TYPE_CHECKING:
    from otel_rl.pipeline.destination import Destination

#: Seconds between two lines about the same destination.
INTERVAL = 600.0
#: Seconds of an outage that are worth no line, such as the restart of a collector.
SHORT = 5.0
_WORDS = {
    "traces": ("span", "spans"),
    "logs": ("log record", "log records"),
    "metrics": ("metric point", "metric points"),
}

#: Destination -> when it was reported last (``time.monotonic()``).
_told: dict[str, float] = {}
#: True during shutdown: the summary line reports the outage instead.
_silent = False


def in_words(counts: dict[str, int]) -> str:
    """``3 spans and 1 metric point``."""
    parts = [f"{number} {_WORDS[signal][number != 1]}" for signal, number in counts.items() if number]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def report(destination: Destination, reason: str, consequence: str, advice: str) -> None:
    """Report a failed export, at most once per ``INTERVAL`` and destination."""
    where, now = destination.words, time.monotonic()
    last = _told.get(where)
    if _silent or (last is not None and now - last < INTERVAL):
        return
    _told[where] = now
    because = f" ({reason})" if reason else ""
    what = f"{where} refuses what is sent" if answer(reason) else f"nothing reaches {where}"
    warn_once_per_node(f"otel-rl: {what}{because}: {consequence}, the program goes on; {advice}")


def be_silent() -> None:
    """Stop reporting: shutdown has begun."""
    global _silent
    _silent = True


def after_fork_in_child() -> None:
    """Let the child report its own outages."""
    global _silent
    _silent = False
