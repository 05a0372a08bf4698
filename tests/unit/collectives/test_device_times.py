"""Durations of PyTorch's flight recorder reach an event, each once; a torn dump costs nothing but its rows."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from otel_rl.collectives import device_times
from otel_rl.collectives.device_times import MOST_ROWS, DeviceTimes
from otel_rl.collectives.torch_entries import NewEntries
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.telemetry import Scope
from otel_rl.training import steps
from tests.support.torch_dumps import dump, entry

SCOPE = Scope("torch_distributed")
TEXT = "0\tdefault_pg\t0-1"


def dumped(entries: list[dict[str, Any]]) -> bytes:
    return pickle.dumps(dump(entries))


def timed(number: int, milliseconds: float = 2.0, **other: Any) -> dict[str, Any]:
    return entry(number, duration_ms=milliseconds, **other)


def numbers(read: tuple[list[Any], int]) -> list[int]:
    return [collective.number for collective in read[0]]


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("all_reduce", "all_reduce"),
        ("all_reduce_barrier", "barrier"),
        ("allreduce_coalesced", "all_reduce"),
        ("_all_gather_base", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("all_to_all", "all_to_all"),
    ],
)
def test_a_collective_that_keeps_its_ranks_together_has_a_row(name, operation):
    (collective,), missed = NewEntries().read(dumped([timed(7, 1.5, operation=name, created=11, record_id=0)]))

    assert collective == ("0", 7, operation, 0.0015, 11)
    assert missed == 0


@pytest.mark.parametrize("name", ["broadcast", "reduce", "gather", "scatter", "coalesced", "send 0->1"])
def test_what_says_nothing_of_who_waits_has_none_and_is_not_missed(name):
    assert NewEntries().read(dumped([timed(1, operation=name)])) == ([], 0)


def test_an_entry_comes_once():
    entries = NewEntries()
    entries.read(dumped([timed(1), timed(2)]))

    assert numbers(entries.read(dumped([timed(1), timed(2), timed(3)]))) == [3]


def test_an_entry_that_was_not_over_comes_when_it_is():
    entries = NewEntries()
    first = entries.read(dumped([timed(1), entry(2, state="started"), timed(3)]))
    second = entries.read(dumped([timed(1), timed(2), timed(3)]))
    third = entries.read(dumped([timed(1), timed(2), timed(3)]))

    assert [numbers(first), numbers(second), numbers(third)] == [[1, 3], [2], []]


def test_what_the_ring_has_overwritten_is_counted():
    entries = NewEntries()
    entries.read(dumped([timed(1), entry(2, state="started")]))
    read = entries.read(dumped([timed(number) for number in range(10, 13)]))

    # Numbers 3 to 9, and number 2, which was not over.
    assert (numbers(read), read[1]) == ([10, 11, 12], 8)


def test_what_has_ended_without_a_duration_is_counted():
    entries = NewEntries()

    assert entries.read(dumped([entry(1), entry(2)])) == ([], 2)
    assert entries.read(dumped([entry(1), entry(2)])) == ([], 0)


def test_a_recorder_that_was_emptied_begins_again():
    entries = NewEntries()
    entries.read(dumped([timed(number) for number in range(1, 9)]))

    assert numbers(entries.read(dumped([timed(1), timed(2)]))) == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"process_group": None},
        {"process_group": ()},
        {"collective_seq_id": "7"},
        {"time_created_ns": None},
        {"duration_ms": float("nan")},
        {"duration_ms": -1.0},
        {"duration_ms": "long"},
        {"profiling_name": None},
        {"record_id": None},
    ],
)
def test_an_entry_that_makes_no_sense_costs_its_own_row(wrong):
    read, _ = NewEntries().read(dumped([{**timed(1), **wrong}, timed(2)]))

    assert [collective.number for collective in read] == [2]


def test_the_dump_of_a_gpu_is_read():
    """One rank, one H200, torch 2.11; a broadcast and what was issued as one are no collectives that tell who waits."""
    collectives, missed = NewEntries().read(Path(__file__).with_name("nccl_of_torch_2_11.pickle").read_bytes())

    assert [(each.group, each.number, each.operation) for each in collectives] == [
        ("0", 1, "all_reduce"),
        ("0", 2, "barrier"),
        ("0", 4, "all_gather"),
        ("0", 5, "reduce_scatter"),
        ("0", 6, "all_to_all"),
        ("0", 7, "all_gather"),
        ("0", 8, "reduce_scatter"),
        ("1", 1, "all_reduce"),
        ("0", 9, "all_reduce"),
    ]
    assert all(0 < each.seconds < 0.01 for each in collectives)
    assert missed == 0


def test_a_dump_that_names_code_runs_none():
    with pytest.raises(pickle.UnpicklingError):
        NewEntries().read(pickle.dumps({"entries": [print]}))


class Recorder:
    """PyTorch's flight recorder, of which a test says what it holds."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.captures = False
        self.minute = 1

    def dump(self) -> bytes:
        return dumped(self.entries)


@pytest.fixture
def recorder(recorded, monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(device_times, "_minute", lambda: recorder.minute)
    return recorder


@pytest.fixture
def times(recorder):
    def texts(generation: int) -> dict[str, str]:
        return {"0": TEXT + (f"\t{generation}" if generation > 1 else "")}

    times = DeviceTimes(SCOPE, recorder.dump, texts, lambda: recorder.captures)
    times.start()
    yield times
    times.stop()


def published(recorded) -> list[Any]:
    return recorded.events(events.TORCH_DISTRIBUTED_COLLECTIVES.name)


def test_the_columns_of_an_event_are_a_row_per_collective(recorder, times, recorded):
    recorder.entries = [timed(1, 2.5, created=5), timed(2, 1.0, created=6, operation="barrier")]
    times.read()

    (event,) = published(recorded)
    assert event.body == {
        names.TORCH_DISTRIBUTED_GROUPS: [TEXT],
        names.TORCH_DISTRIBUTED_COLLECTIVE_GROUP: [0, 0],
        names.TORCH_DISTRIBUTED_COLLECTIVE_NUMBER: [1, 2],
        names.TORCH_DISTRIBUTED_COLLECTIVE_OPERATION: ["all_reduce", "barrier"],
        names.TORCH_DISTRIBUTED_COLLECTIVE_DURATION: [0.0025, 0.001],
        names.TORCH_DISTRIBUTED_COLLECTIVE_CREATED: [5, 6],
    }
    assert event.attributes == {names.TORCH_DISTRIBUTED_TIMING: "on"}


def test_an_event_has_the_newest_rows_and_counts_the_others(recorder, times, recorded):
    recorder.entries = [timed(number) for number in range(1, MOST_ROWS + 11)]
    times.read()

    (event,) = published(recorded)
    assert event.body[names.TORCH_DISTRIBUTED_COLLECTIVE_NUMBER] == list(range(11, MOST_ROWS + 11))
    assert event.attributes[names.TORCH_DISTRIBUTED_COLLECTIVES_LEFT_OUT] == 10


def test_the_recorder_is_read_at_the_end_of_the_first_step_of_a_minute(recorder, times, recorded):
    for number, minute in enumerate([1, 1, 2, 2, 3], 1):
        recorder.minute = minute
        recorder.entries.append(timed(number))
        steps.begin(number, SCOPE)
        steps.finish()

    found = [event.body[names.TORCH_DISTRIBUTED_COLLECTIVE_NUMBER] for event in published(recorded)]
    assert found == [[1, 2, 3], [4, 5]]


def test_nothing_is_read_while_a_graph_is_captured(recorder, times, recorded):
    recorder.minute, recorder.captures, recorder.entries = 2, True, [timed(1)]
    steps.begin(1, SCOPE)
    steps.finish()

    assert not published(recorded)


def test_what_is_left_of_a_former_group_keeps_its_text(recorder, times, recorded):
    recorder.entries = [timed(1)]
    times.read()
    recorder.entries.append(timed(2))
    times.made_anew()
    recorder.entries.append({**timed(1), "record_id": 2})
    times.read()

    groups = [event.body[names.TORCH_DISTRIBUTED_GROUPS] for event in published(recorded)]
    assert groups == [[TEXT], [TEXT], [TEXT + "\t2"]]


def test_nothing_new_is_no_event(recorder, times, recorded):
    times.read()

    assert not published(recorded)
