"""A run that is watched goes on to be followed, whatever fails on the way, and says what did."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("bokeh", reason="the extra `report` is not installed")

from unit.report.synthetic_run import GrpoRun

from otel_rl.live import pace, run_watch
from otel_rl.live.run_watch import RunWatch
from otel_rl.report.core.collected import Collected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_IS_OURS = re.compile("could not be made anew|^following failed").search


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_watch, "LOOK", 0.01)
    monkeypatch.setattr(pace, "_LEAST_PAUSE", 0.0)
    return GrpoRun(tmp_path / "data").write()


def _watched(run: Path, breaks: Callable[[], object], mends: Callable[[], object]) -> list[list[str]]:
    """What is said of a run at the top of its page: when something breaks, and once that works again."""

    async def watch() -> list[list[str]]:
        watch = RunWatch(run, ring_directory=run)
        watch.start()
        await watch.first_page()
        queue = watch.listen(None)
        breaks()
        broken = await _texts(queue, lambda texts: any(map(_IS_OURS, texts)))
        mends()
        watch._is_urgent = True
        mended = await _texts(queue, lambda texts: not any(map(_IS_OURS, texts)))
        await watch.close()
        return [broken, mended]

    return asyncio.run(asyncio.wait_for(watch(), 60))


async def _texts(queue: asyncio.Queue[Any], is_wanted: Callable[[list[str]], bool]) -> list[str]:
    while True:
        event = await queue.get()
        content = json.loads(event.data)
        if "status" in content:
            texts = [finding["text"] for finding in content["status"]["findings"]]
            if is_wanted(texts):
                return texts


def test_without_memory_for_a_page_the_one_that_is_there_says_so_until_the_next_one(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    settle = Collected.settle

    def no_memory(_: Collected) -> None:
        raise MemoryError

    broken, mended = _watched(
        run,
        lambda: monkeypatch.setattr(Collected, "settle", no_memory),
        lambda: monkeypatch.setattr(Collected, "settle", settle),
    )
    assert "the page could not be made anew: MemoryError." in broken
    assert all("anew" not in text for text in mended)
    assert capfd.readouterr().err.count("made anew") == 1


def test_what_nobody_has_foreseen_is_said_on_the_page_and_in_the_terminal_and_following_goes_on(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    send = RunWatch._look

    def fails(_: RunWatch) -> bool:
        raise ValueError("of this \x1b[2Jtest")

    broken, _ = _watched(
        run, lambda: monkeypatch.setattr(RunWatch, "_look", fails), lambda: monkeypatch.setattr(RunWatch, "_look", send)
    )
    assert "following failed, and is tried again: ValueError: of this \x1b[2Jtest." in broken
    said = capfd.readouterr().err
    assert said.count("following failed") == 1
    assert 'raise ValueError("of this' in said
    assert "\x1b" not in said
