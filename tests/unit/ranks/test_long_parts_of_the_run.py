"""Parts of the run that take long: what the watchdog says of rendezvous, of what loads, and of the wait for a batch."""

from __future__ import annotations

import pytest

from otel_rl.flight_recorder import layout
from otel_rl.ranks import watchdog
from otel_rl.ranks.watchdog import parts, reports, thread
from otel_rl.telemetry import progress, run_parts

LIMIT = 60.0


@pytest.fixture
def program(recorded, monkeypatch):
    return Program(monkeypatch)


class Program:
    """A program that waits, and its watchdog, with a clock of the test; ``cpu`` is what it uses in a second."""

    def __init__(self, monkeypatch):
        self.seconds = self.cpu = self.used = 0.0
        for module in (thread, parts, progress):
            monkeypatch.setattr(module, "monotonic", lambda: self.seconds)
        monkeypatch.setattr(parts, "_spent", lambda: parts._Spent(self.used, 0))
        self.lines = []
        monkeypatch.setattr(reports, "write_line", self.lines.append)
        self.watchdog = thread.Watchdog(LIMIT)

    def passes(self, seconds):
        for _ in range(seconds):
            self.seconds += 1
            self.used += self.cpu
            self.watchdog.look()


def test_a_wait_in_which_nothing_moves_may_hang_and_is_told_once(program, recorded, monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    part = progress.part_began("rendezvous", 2)
    program.passes(59)
    assert program.lines == []
    program.passes(100)
    progress.part_ended(part, failed=False)

    (line,) = program.lines
    assert " waits: " in line
    assert ", in init_process_group (world size 2, 10.0.0.1:29500) for 60 s, at line " in line
    assert line.endswith("nothing moves (CPU, bytes), it may hang")
    (event,) = recorded.events("rl.wait")
    assert event.attributes["rl.wait.for"] == "rendezvous"
    assert event.attributes["rl.wait.moves"] is False
    assert event.attributes["rl.hang.duration"] == LIMIT


def test_what_uses_a_cpu_waits_and_does_not_hang(program, recorded):
    program.cpu = 0.5
    part = progress.part_began("model")
    program.passes(61)
    progress.part_ended(part, failed=False)

    (line,) = program.lines
    assert "in the loading of a model for 60 s" in line
    assert "hang" not in line
    assert recorded.events("rl.wait")[0].attributes["rl.wait.moves"] is True


@pytest.mark.parametrize(
    ("failed", "said"), [(False, "is over after 86 s"), (True, "ended without success after 86 s")]
)
def test_the_end_of_a_wait_that_was_told_has_its_whole_length(program, recorded, failed, said):
    part = progress.part_began(layout.LOADER, 2)
    program.passes(86)
    progress.part_ended(part, failed=failed)
    parts.over(part, failed=failed)

    assert program.lines[1].endswith(f": the wait for a batch of its data loader (2 workers) {said}")
    assert recorded.events("rl.wait.end")[0].attributes["rl.hang.duration"] == 86.0


@pytest.mark.parametrize(("cpu", "seen"), [(0.0, 1), (0.5, None)], ids=["nothing moves", "works"])
def test_the_gauge_of_hangs_is_1_in_a_part_of_the_run_in_which_nothing_moves(program, recorded, monkeypatch, cpu, seen):
    monkeypatch.setattr(watchdog, "_watchdog", program.watchdog)
    monkeypatch.setattr(watchdog, "_is_shown", False)
    program.cpu = cpu
    part = progress.part_began("rendezvous", 2)
    program.passes(61)
    assert _gauge(recorded) == seen
    progress.part_ended(part, failed=False)
    program.passes(1)
    assert _gauge(recorded) == (seen and 0)


def _gauge(recorded):
    points = recorded.metrics().get("rl.hang.active")
    return points[0].value if points else None


def test_short_parts_follow_each_other_without_a_word(program):
    for _ in range(10):
        part = progress.part_began(layout.LOADER)
        program.passes(40)
        progress.part_ended(part, failed=False)
    assert program.lines == []


def test_the_thread_that_watches_a_part_ends_with_it_unless_steps_are_watched(monkeypatch):
    monkeypatch.setattr(progress, "_part_watchers", None)
    watchdog.arm()
    try:
        part = progress.part_began("rendezvous", 2)
        assert watchdog._watchdog is not None
        progress.part_ended(part, failed=False)
        assert watchdog._watchdog is None
        progress.part_ended(progress.part_began("dataset", 8, may_watch=False), failed=False)
        assert watchdog._watchdog is None
    finally:
        watchdog.end()


@pytest.mark.parametrize("part", ["trainer", "engine", "dataset"])
def test_no_thread_begins_for_a_part_in_which_the_program_starts_processes(monkeypatch, recorded, part):
    watched = []
    monkeypatch.setattr(progress, "_part_watchers", (watched.append, lambda *_: None))
    hooks = run_parts.following(part)
    hooks["end"](hooks["begin"](), None, None)
    assert watched == []


def test_bytes_of_a_file_that_is_mapped_move(monkeypatch, tmp_path):
    (tmp_path / "io").write_text(
        "rchar: 1\nwchar: 20\nsyscr: 5\nsyscw: 5\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 7\n"
    )
    monkeypatch.setattr(parts, "Path", lambda _: tmp_path / "io")
    assert parts._bytes("self") == 1 + 20 + 4096 + 8192
