"""What the ranks tell each other once, through the store that ``init_process_group`` made.

Rank 0 publishes run id, attempt and where it runs; the others adopt them, so that one job is one run even where the
launcher could not share a variable (several nodes, ``torchrun`` without a rendezvous id). Ranks on other machines then
measure how far their wall clock is from that of rank 0.

Nothing here blocks for good: a rank whose partner is not instrumented gives up after :data:`PATIENCE` seconds, and
the store is only asked with calls that return at once.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.process.process_identity import Run

    WallClock = Callable[[], int]

#: Longest wait for another rank, in seconds. The ranks leave ``init_process_group`` within milliseconds of each other.
PATIENCE = 2.0
POLL_INTERVAL = 0.002
#: Round trips per rank; the one with the shortest way gives the offset.
ROUNDS = 3
PREFIX = "otel_rl"


class Identity(NamedTuple):
    """What rank 0 publishes."""

    run_id: str | None
    attempt: int
    #: Identifies the machine's kernel: processes that share it share a clock.
    boot_id: str


def boot_id() -> str:
    """Random id of this kernel's boot; empty where there is none (not Linux)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Rendezvous:
    """The exchange over one store.

    Args:
        store: a c10d store that all ranks share.
        generation: counts ``init_process_group`` in this process: a store may outlive a process group.
        wall_clock: ns since the epoch.
    """

    def __init__(self, store: Any, generation: int, wall_clock: WallClock = time.time_ns) -> None:
        self._store = store
        self._prefix = f"{PREFIX}/{generation}"
        self._wall_clock = wall_clock

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def publish(self, identity: Run, machine: str) -> None:
        """Rank 0: tell the others who we are."""
        value = Identity(identity.id, identity.attempt, machine)._asdict()
        self._store.set(self._key("identity"), json.dumps(value))

    def receive(self, patience: float = PATIENCE) -> Identity | None:
        """Other ranks: what rank 0 published, or None when it did not within ``patience`` seconds."""
        text = self._await("identity", patience)
        return None if text is None else Identity(**json.loads(text))

    def _await(self, name: str, patience: float) -> str | None:
        key = self._key(name)
        deadline = time.monotonic() + patience
        while not self._store.check([key]):
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_INTERVAL)
        return bytes(self._store.get(key)).decode()

    def answer(self, others: int, patience: float = PATIENCE) -> None:
        """Rank 0: tell our wall clock to each rank that asks, until all ``others`` have said that they are done."""
        answered = 0
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            asked = self._store.add(self._key("asked"), 0)
            while answered < asked:
                answered += 1
                self._store.set(self._key(f"answer/{answered}"), str(self._wall_clock()))
            if self._store.add(self._key("done"), 0) >= others:
                return
            time.sleep(POLL_INTERVAL / 10)

    def measure_offset(self, patience: float = PATIENCE) -> float | None:
        """Ranks on other machines: our wall clock minus that of rank 0, in seconds, or None without an answer.

        The error is at most half of the shortest round trip, as with NTP.
        """
        best: tuple[int, float] | None = None
        for _ in range(ROUNDS):
            sent = self._wall_clock()
            ticket = self._store.add(self._key("asked"), 1)
            answer = self._await(f"answer/{ticket}", patience)
            if answer is None:
                break
            received = self._wall_clock()
            offset = ((sent + received) / 2 - int(answer)) * 1e-9
            if best is None or received - sent < best[0]:
                best = received - sent, offset
        return None if best is None else best[1]

    def done(self) -> None:
        """Other ranks: rank 0 need not wait for us any longer."""
        self._store.add(self._key("done"), 1)
