"""The job of ``otel-rl live --demo``: two ranks that need nothing but the pack, one of them late after a while.

    opentelemetry-instrument python -m otel_rl.live.demo_program

It samples, scores and trains in name only: all its work is sleeping. Ranks wait for each other at the end of a step,
by files in the working directory. It ends when its parent has ended.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import otel_rl

#: Steps, the first one in which a rank is late, and a tool that fails from a step on.
_STEPS, _LATE_FROM, _FAILS_FROM = 2000, 20, 30
_SAMPLES = 4
#: Seconds of a phase.
_SAMPLE, _TRAIN, _LATE = 0.03, 0.2, 1.2
#: Seconds between two looks at the other ranks.
_LOOK = 0.005


def main() -> None:
    """Make steps as rank ``RANK`` until the parent ends."""
    rank, parent = int(os.environ.get("RANK", "0")), os.getppid()
    chance = random.Random(rank)  # noqa: S311 - numbers for a picture
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in range(1, _STEPS + 1):
        if os.getppid() != parent:
            return
        with otel_rl.step(number):
            _sample(number, rank, chance)
            with otel_rl.phase("train"):
                is_late = rank == 1 and number >= _LATE_FROM
                time.sleep(_TRAIN + (_LATE if is_late else 0.0) + 0.02 * chance.random())
            if rank == 0:
                _log(number, chance)
            _wait_for_others(number, rank, parent)
        if number == 1:
            # Ranks that will never meet in a process group would wait for each other's run id before they write.
            otel_rl.flush(timeout=5)


def _wait_for_others(number: int, rank: int, parent: int) -> None:
    """Wait until every rank has come this far, as in a collective; while the parent lives."""
    Path(f"rank{rank}.step").write_text(str(number))
    for other in range(int(os.environ.get("WORLD_SIZE", "1"))):
        while _step_of(other) < number and os.getppid() == parent:
            time.sleep(_LOOK)


def _step_of(rank: int) -> int:
    try:
        return int(Path(f"rank{rank}.step").read_text() or 0)
    except FileNotFoundError:
        return 0


def _sample(number: int, rank: int, chance: random.Random) -> None:
    with otel_rl.phase("sample"):
        for sample in range(_SAMPLES):
            with otel_rl.rollout(
                sample_id=number * _SAMPLES + sample, group_id=number * 2 + rank, policy_version=number
            ):
                with otel_rl.tool("search"):
                    time.sleep(_SAMPLE * (0.5 + chance.random()))
                _call_calculator(number, chance)
                reward = 1.0 if chance.random() < 1 - math.exp(-number / 40) else 0.0
                otel_rl.reward("exact_match", reward)


def _call_calculator(number: int, chance: random.Random) -> None:
    with suppress(ZeroDivisionError), otel_rl.tool("calculator"):
        number // (0 if number >= _FAILS_FROM and chance.random() < 1 / 2 else 1)


def _log(number: int, chance: random.Random) -> None:
    otel_rl.metric("loss", math.exp(-number / 30) + 0.05 * chance.random())
    otel_rl.metric("kl", 0.02 + 0.0005 * number + 0.002 * chance.random())
    otel_rl.metric("entropy", 1.2 * math.exp(-number / 200) + 0.02 * chance.random())
    otel_rl.metric("reward", 1 - math.exp(-number / 40) + 0.05 * chance.random())


if __name__ == "__main__":
    main()
