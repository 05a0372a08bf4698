"""When the rings of the flight recorder decide how a run ended, or that it is stuck."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from unit.ranks.written_ranks import Ranks
from unit.report.synthetic_run import SECOND, process

from otel_rl.core import settings
from otel_rl.flight_recorder import layout
from otel_rl.process import lifetime
from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load, overview
from otel_rl.report.subjects.endings import process_end
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP = 5


@pytest.fixture
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the rings of this node."""
    folder = tmp_path / "rings"
    folder.mkdir()
    monkeypatch.setenv("OTEL_RL_RING_DIR", str(folder))
    settings.reset()
    yield folder
    monkeypatch.undo()
    settings.reset()


@pytest.fixture
def ranks(rings: Path) -> Ranks:
    """Ranks 0 and 2 wait for rank 1, which is in step 5."""
    written = Ranks(rings)
    for rank in range(3):
        written.passed(rank, 1)
    written.waits(0, 2)
    written.waits(2, 2)
    written.opens(1, layout.STEP, "", STEP)
    return written


def _collected(folder: Path, hang: tuple[int, int] | None = None, failed: int | None = None) -> Collected:
    """Read a run of three ranks of which one, in one step, was told to hang, or failed."""
    for rank in range(3):
        writer = process(folder / "run", rank, world_size=3, started=time.time_ns() - 10 * SECOND)
        writer.clean_exit = False
        if hang is not None and rank == hang[0]:
            writer.event("rl.hang", 2, attributes={"rl.loop.iteration": hang[1], "rl.rank": rank}, severity=17)
        if rank == failed:
            writer.event("rl.process.exception", 3, attributes={"exception.type": "RuntimeError"}, severity=21)
        writer.write()
    return Collected(Reader(find_run(folder / "run")), load()).read(lambda _: None)


@pytest.mark.usefixtures("ranks")
@pytest.mark.parametrize(
    ("hang", "do_tell"),
    [(None, False), ((1, STEP), True), ((0, STEP), False), ((1, STEP - 1), False)],
    ids=["no hang", "of the rank that others wait for", "of a rank that waits", "of an earlier step"],
)
def test_rings_tell_of_a_wait_just_begun_only_where_the_awaited_rank_hangs_in_that_step(
    tmp_path: Path, hang: tuple[int, int] | None, *, do_tell: bool
) -> None:
    assert process_end.rings_tell(_collected(tmp_path, hang)) is do_tell


def test_rings_tell_of_a_rank_that_an_exception_ended(tmp_path: Path, ranks: Ranks) -> None:
    ranks.rings[1].finish("uncaught ValueError")

    assert process_end.rings_tell(_collected(tmp_path))


@pytest.mark.parametrize("failed", [None, 2], ids=["killed", "a rank failed"])
def test_a_rank_that_left_the_loop_before_the_others_is_told_with_the_deadlock(
    tmp_path: Path, rings: Path, monkeypatch: pytest.MonkeyPatch, failed: int | None
) -> None:
    written = Ranks(rings)
    for rank in range(3):
        written.by_torch(rank, 8, has_ended=True)
        written.rings[rank].end(written.rings[rank].begin(layout.STEP, "", 39), False)
    for rank in (0, 1):
        written.opens(rank, layout.STEP, "", 40)
        written.by_torch(rank, 9)
    written.waits(2, 1)
    written.tells(lifetime.own(), -6)
    monkeypatch.setattr(lifetime, "is_alive", lambda _: False)
    ended = next(one for one in overview.examine(_collected(tmp_path, failed=failed)).findings if one.code == "ended")
    said = [ended.text, *ended.evidence]
    assert any("; rank 2 left the loop after step 39, and rank 0 is in step 40, rank 1 is" in one for one in said)
    assert not any("No rank is known to wait" in one for one in said)


@pytest.mark.usefixtures("rings")
def test_a_run_without_rings_has_none_that_tell(tmp_path: Path) -> None:
    assert not process_end.rings_tell(_collected(tmp_path, (1, STEP)))


def test_the_ring_of_a_rank_says_nothing_of_that_rank_in_an_attempt_before(tmp_path: Path, rings: Path) -> None:
    written = Ranks(rings)
    for path in rings.iterdir():
        path.unlink()
    written.add(1, "0.1.0")
    written.tells(lifetime.own(), 0)
    for attempt, started in (("0.0.0", 20), ("0.1.0", 10)):
        begin = time.time_ns() - started * SECOND
        writer = process(tmp_path / "run", 1, started=begin, rl__run__attempt=attempt)
        writer.span("rl.rank.step", 1, 2, {"rl.loop.iteration": 1})
        writer.clean_exit = False
        writer.write()
    collected = Collected(Reader(find_run(tmp_path / "run")), load()).read(lambda _: None)
    words = {end.process.attempt: end.words for end in process_end.every_end(collected).values()}
    assert ["status 0" in words[attempt] for attempt in ((0, 0, 0), (0, 1, 0))] == [False, True]
