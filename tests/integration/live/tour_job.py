"""Three runs to look at: one has ended, one has failed, and one of two ranks goes on until it is told."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from integration.live.live_command import SCRIPTS, TIMEOUT, environment

from otel_rl.process import launch

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).with_name("tour_program.py")
#: The run that goes on.
RUN = "grpo-3"
#: More steps than it makes before it is told.
_MANY = 2000


class Job:
    """The run of two ranks; ``data`` is the folder of all runs."""

    def __init__(
        self, folder: Path, ranks: list[subprocess.Popen[bytes]], earlier: list[subprocess.Popen[bytes]]
    ) -> None:
        self._folder, self._ranks, self._earlier = folder, ranks, earlier
        self.data = folder / "otel-rl"
        self.run = self.data / RUN

    def await_the_others(self) -> None:
        """Await the end of the other runs."""
        for process in self._earlier:
            process.wait(TIMEOUT)

    def make_a_rank_late(self) -> None:
        """Rank 1 does not come back from its update, and rank 0 waits for it."""
        (self._folder / "late").touch()

    def end(self) -> None:
        """Let both ranks go on, and await their end."""
        (self._folder / "go").touch()
        for rank in self._ranks:
            assert rank.wait(TIMEOUT) == 0


@contextmanager
def running(folder: Path) -> Iterator[Job]:
    """The runs below ``folder``; the last one is ended with the block."""
    shutil.copy(PROGRAM, folder / "train.py")
    ranks = _start(folder, RUN, 2, str(_MANY))
    earlier = _start(folder, "grpo-1", 1, "16") + _start(folder, "grpo-2", 1, "9", "fails")
    try:
        yield Job(folder, ranks, earlier)
    finally:
        for process in (*ranks, *earlier):
            process.kill()
            process.wait()


def _start(folder: Path, name: str, ranks: int, *arguments: str) -> list[subprocess.Popen[bytes]]:
    """Start the ranks of a run, as a launcher would."""
    variables = {
        "OTEL_RL_DATA_DIR": str(folder / "otel-rl"),
        "OTEL_RL_ALGORITHM": "grpo",
        "OTEL_RL_QUIET": "true",
        # The pictures do not say where they were made.
        "OTEL_RESOURCE_ATTRIBUTES": "host.name=node-0",
    }
    environ = environment(folder, OTEL_RL_RUN_ID=name, **variables)
    launch.prepare(environ, (sys.executable, "torchrun"), begins=True)
    started = []
    for rank in range(ranks):
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
        with (folder / f"{name}-{rank}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [SCRIPTS / "opentelemetry-instrument", sys.executable, "train.py", *arguments],
                    cwd=folder,
                    env=environ | {key: str(value) for key, value in numbers.items()},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )
    return started
