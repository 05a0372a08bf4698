"""Memory and pauses in a real process with PyTorch: garbage collections that are forced, and compilations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from process_support import plain

if TYPE_CHECKING:
    from process_support import Programs

#: Before, a callback of the collector would do harm, see the test of copies below.
TIMED = sys.version_info >= (3, 12)
PROGRAM = """
import gc, otel_rl, torch

@torch.compile(backend="eager", dynamic=False)
def doubled(x):
    return x * 2

for number in (1, 2, 3):
    with otel_rl.step(number), otel_rl.phase("train"):
        doubled(torch.ones(2 + number // 3))
        gc.collect()
"""


@pytest.fixture
def trained(programs: Programs):
    done = programs.instrumented(PROGRAM)
    assert done.code == 0, done.err
    return programs


def _values(programs: Programs, metric: str) -> list[float]:
    return [float(point.get("asDouble", point.get("asInt", 0))) for point in programs.store.points(metric)]


def test_a_training_program_tells_its_memory_its_pauses_and_its_compilations(trained: Programs) -> None:
    assert max(_values(trained, "process.memory.usage")) > 1 << 20
    assert bool(trained.store.points("rl.gc.time")) is TIMED
    full = [
        int(point["asInt"])
        for point in trained.store.points("cpython.gc.collections")
        if plain(point["attributes"])["cpython.gc.generation"] == 2
    ]
    assert max(full) >= 3
    assert max(_values(trained, "rl.compile.compilations")) == 2
    assert max(_values(trained, "rl.compile.recompilations")) == 1
    steps = [plain(span["attributes"]) for span in trained.store.spans() if span["name"] == "rl.rank.step"]
    assert all(("rl.loop.gc_time" in step) is TIMED for step in steps)
    assert sorted(step["rl.loop.iteration"] for step in steps if "rl.loop.compile_time" in step) == [1, 3]
    records = [
        plain(record["attributes"])
        for line in trained.store._lines("logs")
        for resource in line["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
        if record.get("eventName") == "rl.compile.recompilation"
    ]
    assert [record["rl.loop.iteration"] for record in records] == [3]
    assert "expected 2, actual 3" in records[0]["rl.compile.reason"]


def test_they_are_no_measurements_of_the_program_and_start_no_export(programs: Programs) -> None:
    done = programs.instrumented("import gc; gc.collect()")
    assert done.code == 0
    assert programs.store.directories == []


def test_a_program_with_one_span_counts_its_own_points_only(programs: Programs) -> None:
    done = programs.instrumented(
        "import otel_rl\nwith otel_rl.rollout(sample_id=1):\n    pass\n",
    )
    assert "metric point" in done.err
    assert _values(programs, "process.memory.usage")
    [line] = [line for line in done.err.splitlines() if "recorded" in line]
    # The duration of the rollout, and that one has begun and ended.
    assert "3 metric points" in line


COPIES = """
import threading, otel_rl

numbers = {number: [] for number in range(20_000)}
over = threading.Event()

def change():
    while not over.is_set():
        for number in range(1, 51):
            numbers[-number] = number
        for number in range(1, 51):
            del numbers[-number]

with otel_rl.step(1):
    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(400):
        list(numbers.items())
    over.set()
    thread.join()
"""


def test_copies_of_a_dictionary_that_another_thread_changes_are_whole_as_without_us(programs: Programs) -> None:
    done = programs.instrumented(COPIES)

    assert done.code == 0, done.err


def test_where_they_cannot_be_loaded_the_steps_are_recorded_and_the_status_says_why(programs: Programs) -> None:
    done = programs.instrumented(
        "import sys, otel_rl\n"
        "sys.modules['otel_rl.runtime_metrics'] = None\n"
        "for number in (1, 2):\n"
        "    with otel_rl.step(number):\n"
        "        pass\n"
        "from otel_rl.core import instrumentor_status\n"
        "print(instrumentor_status.snapshot()['pressure'])\n"
    )
    assert done.code == 0
    assert "'state': 'skipped'" in done.out
    assert "no memory, no pauses" in done.out
    assert "internal error" not in done.err
    assert programs.store.span_names().count("rl.rank.step") == 2
