"""Dumps of PyTorch's flight recorder: what they say of the ranks, with rings and without."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.torch_dumps import DEFAULT, dump, entry, write
from written_ranks import Ranks

from otel_rl.cli import main
from otel_rl.flight_recorder import layout, reader
from otel_rl.ranks.postmortem import Postmortem, dump_text, examine
from otel_rl.ranks.postmortem.text import as_json, as_text, verdict
from otel_rl.report.core.flight_rings import STUCK, FlightRings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

ALL = "0\tdefault_pg\t0-2"


class Dumps:
    """Dumps of a job of three ranks, and no rings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def write(self, *by_rank: Sequence[dict[str, Any]], **other: Any) -> None:
        for rank, entries in enumerate(by_rank):
            write(self.folder, rank, entries, **other)

    def examine(self) -> Postmortem:
        return examine(self.folder, self.folder, None, self.folder)


@pytest.fixture
def dumps(tmp_path: Path) -> Dumps:
    return Dumps(tmp_path / "dumps")


def _completed(last: int) -> list[dict[str, Any]]:
    return [entry(number) for number in range(1, last + 1)]


def _stuck(last: int, state: str = "scheduled", **other: Any) -> list[dict[str, Any]]:
    return [*_completed(last - 1), entry(last, state=state, **other)]


def test_the_rank_that_did_not_enter_is_named_with_the_place_of_the_call(dumps):
    dumps.write(_stuck(3), _completed(2), _stuck(3, "started"))
    found = dumps.examine()

    (absence,) = as_json(found)["torch_dumps"]["absences"]
    assert (absence["operation"], absence["number"], absence["waiting"], absence["missing"]) == (
        "all_reduce",
        3,
        [0, 2],
        [1],
    )
    text = as_text(found)
    assert "ranks 0, 2 issued all_reduce number 3 of group default_pg (scheduled), which rank 1 did not enter" in text
    assert "rank 0 called it from train at /home/user/train.py:12" in text
    assert verdict(found) == [
        "by PyTorch's dumps: rank 1 did not enter all_reduce number 3 of group default_pg, in which ranks 0, 2 wait"
    ]


def test_the_last_collective_of_each_rank_and_group_is_in_the_table_and_in_the_json(dumps):
    pair = {"process_group": ("1", "pair"), "record_id": 1}
    dumps.write([entry(1), entry(7, "broadcast", shape=[2, 3], dtype="BFloat16", **pair)], _completed(1), _completed(1))
    found = dumps.examine()

    line = next(line for line in as_text(found).splitlines() if "broadcast" in line and "pair" in line)
    assert line.split()[:7] == ["0", "pair", "broadcast", "7", "completed", "[2,", "3]"]
    assert line.endswith("train at /home/user/train.py:12")
    last = as_json(found)["torch_dumps"]["ranks"][0]["last"]
    assert [(one["group_description"], one["number"]) for one in last] == [("pair", 7), ("default_pg", 1)]
    assert last[0]["inputs"] == {"shapes": [[2, 3]], "types": ["BFloat16"], "more": 0}
    assert last[0]["frames"][2] == {"function": "train", "file": "/home/user/train.py", "line": 12}


def test_the_json_form_says_the_same_as_the_pickle(dumps):
    by_rank = (_stuck(3), _completed(2), _stuck(3))
    dumps.write(*by_rank)
    as_pickle = as_json(dumps.examine())["torch_dumps"]
    for rank, entries in enumerate(by_rank):
        (dumps.folder / f"trace_{rank}").unlink()
        (dumps.folder / f"trace_{rank}.json").write_text(json.dumps(dump(entries)))
    as_text_form = as_json(dumps.examine())["torch_dumps"]

    assert as_text_form["absences"] == as_pickle["absences"]
    assert [one["last"] for one in as_text_form["ranks"]] == [one["last"] for one in as_pickle["ranks"]]


@pytest.mark.parametrize(
    ("other", "what", "sentence"),
    [
        (
            entry(2, "broadcast", "scheduled"),
            "operation",
            "in number 2 of group default_pg: ranks 0, 2 all_reduce, rank 1 broadcast; that hangs, or gives wrong data",
        ),
        (
            entry(2, state="scheduled", shape=[8]),
            "shape",
            "in all_reduce number 2 of group default_pg: ranks 0, 2 [4] Float, rank 1 [8] Float; that hangs, or",
        ),
        (
            entry(2, state="scheduled", dtype="Half"),
            "type",
            "in all_reduce number 2 of group default_pg: ranks 0, 2 [4] Float, rank 1 [4] Half; that hangs, or",
        ),
    ],
)
def test_ranks_that_disagree_are_named_with_what_each_issued(dumps, other, what, sentence):
    dumps.write(_stuck(2), [entry(1), other], _stuck(2))
    found = dumps.examine()

    assert [one["what"] for one in as_json(found)["torch_dumps"]["mismatches"]] == [what]
    assert sentence in verdict(found)[0]


def test_only_the_first_mismatch_of_a_group_is_told(dumps):
    """A rank that leaves one collective out issues all later ones under a wrong number."""
    turns = [("all_reduce", "broadcast", "barrier"), ("broadcast", "barrier", "all_reduce")]
    dumps.write(*([entry(number, name) for number, name in enumerate(names, 1)] for names in turns), world_size=2)
    assert len(dumps.examine().dumps.mismatches) == 1


@pytest.mark.parametrize("operation", ["all_to_all", "all_to_all_v_single", "reduce_scatter_v"])
def test_shapes_may_differ_where_the_operation_allows_it(dumps, operation):
    dumps.write([entry(1, operation, shape=[2])], [entry(1, operation, shape=[6])], [entry(1, operation)])
    assert dumps.examine().dumps.mismatches == []


def test_in_a_scatter_only_the_source_has_inputs(dumps):
    source = entry(1, "scatter", input_sizes=[[4], [4], [4]], input_dtypes=["Float"] * 3)
    receiver = entry(1, "scatter", input_sizes=[], input_dtypes=[])
    dumps.write([source], [receiver], [receiver])
    assert dumps.examine().dumps.mismatches == []


def test_a_collective_that_all_have_entered_is_slow(dumps):
    dumps.write(_stuck(2, "started"), _stuck(2, "started"), _stuck(2, "started"))
    assert verdict(dumps.examine()) == [
        "by PyTorch's dumps: all ranks are in all_reduce number 2 of group default_pg: it is slow, or the network is"
    ]


def test_a_collective_that_a_device_has_not_begun_is_not_put_down_to_the_network(dumps):
    dumps.write(_stuck(2, "started"), _stuck(2, "scheduled"), _stuck(2, "started"))
    said = "issued all_reduce number 2 of group default_pg; the device of rank 1 has not begun it, those of others have"
    assert verdict(dumps.examine()) == [f"by PyTorch's dumps: all ranks {said}"]


def test_where_the_begin_is_not_recorded_nothing_is_said_of_devices(dumps):
    dumps.write(_stuck(2, "scheduled"), _stuck(2, "scheduled"), _stuck(2, "scheduled"))
    assert "device" not in verdict(dumps.examine())[0]


def test_a_collective_that_the_watchdog_gave_up_has_timed_out(dumps):
    dumps.write(_stuck(2, retired=True), _completed(1), _completed(1))
    assert "issued all_reduce number 2 of group default_pg (timed out), which ranks 1, 2" in as_text(dumps.examine())


def _gloo(number: int, operation: str = "all_reduce", *, retired: bool = True, **other: Any) -> dict[str, Any]:
    """As torch 2.13 records it: gloo gives no moments."""
    return entry(number, state="scheduled", profiling_name=f"gloo:{operation}", retired=retired, **other)


#: Gloo does not name its groups.
OF_GLOO = {"pg_config": {"": {"name": "", "desc": "", "ranks": "[0, 1]"}}}


def test_a_rank_that_gloo_gave_an_error_had_waited_in_vain(dumps):
    dumps.write([_gloo(1), _gloo(2)], [_gloo(1)], [_gloo(1), _gloo(2)], **OF_GLOO)
    assert verdict(dumps.examine()) == [
        "by PyTorch's dumps: rank 1 did not enter all_reduce number 2 of group default_pg, in which ranks 0, 2 waited"
    ]


def test_the_source_of_a_broadcast_need_not_wait_for_the_others(dumps):
    dumps.write([_gloo(1), _gloo(2, "broadcast")], [_gloo(1)], [_gloo(1)], **OF_GLOO)
    assert dumps.examine().dumps.absences == []


def test_a_rank_is_not_missing_in_a_group_of_gloo_that_it_never_used(dumps):
    pair = {"process_group": ("1", "pair"), "collective_seq_id": 1, "retired": False}
    dumps.write([_gloo(1), _gloo(2, **pair)], [_gloo(1), _gloo(2, **pair)], [_gloo(1)], **OF_GLOO)
    found = dumps.examine()
    assert found.dumps.absences == []
    assert [one.group.description for one in found.dumps.entered_by_all] == ["pair"]


def test_later_collectives_that_wait_in_the_same_queue_are_not_told(dumps):
    queued = [entry(number, state="scheduled") for number in (2, 3, 4)]
    dumps.write([entry(1), *queued], _completed(1), [entry(1), *queued])
    assert [one.collective.number for one in dumps.examine().dumps.absences] == [2]


def test_a_receive_that_waits_is_told_and_nobody_is_blamed(dumps):
    receive = entry(2, "recv 0<-1", "started", is_p2p=True, p2p_seq_id=1)
    dumps.write([entry(1), receive], _completed(1), _completed(1))
    found = dumps.examine()
    assert found.dumps.absences == []
    assert verdict(found) == ["by PyTorch's dumps: rank 0 is in recv 0<-1 of group default_pg (started)"]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.unlink(), "there is no dump of it"),
        (lambda path: os.utime(path, (1, 1)), "its dump was written before"),
        (lambda path: write(path.parent, 1, []), "its dump holds no collective"),
        (
            lambda path: write(path.parent, 1, [entry(9, process_group=("1", "pair"))]),
            "its dump does not reach back to its first collective, and holds none of the group",
        ),
    ],
)
def test_of_a_rank_whose_dump_cannot_tell_nothing_is_claimed(dumps, spoil: Callable[[Path], object], reason):
    dumps.write(_stuck(3), _completed(2), _stuck(3))
    spoil(dumps.folder / "trace_1")
    found = dumps.examine()

    assert found.dumps.absences == []
    assert f"whether rank 1 entered it is not known: {reason}" in as_text(found)


def test_entries_that_make_no_sense_are_counted_and_the_others_are_used(dumps):
    broken = [None, {}, entry(1, collective_seq_id="1"), entry(1, process_group="0"), entry(1, profiling_name=None)]
    dumps.write([*broken, *_stuck(2)], _completed(1), _completed(1))
    found = dumps.examine()
    assert [one.missing for one in found.dumps.absences] == [(1, 2)]
    assert "rank 0: 5 entries of its dump make no sense" in as_text(found)


def test_names_reach_no_terminal_as_commands(dumps):
    dumps.write(
        [entry(1, "all\x1b[2Jreduce", "scheduled", process_group=("0", "\x1b]0;x\x07"), input_dtypes=["\x1b[1m"])],
        [entry(1, process_group=("0", "\x1b]0;x\x07"))],
    )
    assert "\x1b" not in as_text(dumps.examine())


def test_a_folder_with_files_of_other_programs_asks_for_the_prefix(dumps, capsys):
    dumps.write(_stuck(2), _completed(1), _completed(1))
    (dumps.folder / "core.4711").write_bytes(b"core")
    assert main(["postmortem", str(dumps.folder), "--torch-dumps", str(dumps.folder)]) == 2
    assert f"holds files of 2 prefixes: give one of them, such as {dumps.folder}/core." in capsys.readouterr().err

    assert main(["postmortem", str(dumps.folder), "--torch-dumps", str(dumps.folder / "trace_")]) == 0
    assert "ranks 1, 2 did not enter all_reduce number 2" in capsys.readouterr().out


def test_of_two_dumps_of_a_rank_the_newer_one_counts(dumps):
    dumps.write(_stuck(2), _completed(1), _completed(1))
    old = dumps.folder / "trace_1.json"
    old.write_text(json.dumps(dump(_stuck(2))))
    os.utime(old, (1, 1))
    assert [one.missing for one in dumps.examine().dumps.absences] == [(1, 2)]


@pytest.mark.parametrize("waited", [1, 60])
def test_a_run_of_which_only_dumps_are_there_has_ended_badly_where_a_rank_waited_for_long(dumps, waited):
    """A program may write dumps while all is well, too."""
    begun = time.time_ns() - waited * 10**9
    dumps.write([entry(1), entry(2, state="started", created=begun)], _completed(1), _completed(1))
    assert FlightRings(None, dumps.examine()).ended_badly is (waited > STUCK)


def test_more_rows_than_are_shown_are_counted(dumps):
    dumps.write(*[_completed(1)] * 70, world_size=70)
    assert dump_text.rows(dumps.examine().dumps, 0)[-1][0] == "and 6 more"


def test_without_rings_and_dumps_the_command_gives_both_reasons(tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    command = ["postmortem", str(empty), "--ring-dir", str(empty), "--torch-dumps", str(empty / "trace_")]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "is empty" in error
    assert f"no dump of PyTorch's flight recorder at {empty}/trace_" in error


class Both(Ranks):
    """Rings of three ranks, and dumps of the same collectives."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.entries: list[list[dict[str, Any]]] = [[], [], []]

    def issued(self, rank: int, state: str = "completed", operation: str = "all_reduce", **other: Any) -> None:
        """PyTorch records what the rank has launched last."""
        number = len(self.entries[rank]) + 1
        ring = reader.read(self.rings[rank].path)
        began = max(event.began for event in (*ring.records, *ring.open) if event.kind == layout.COLLECTIVE)
        self.entries[rank].append(entry(number, operation, state, created=ring.wall(began), **other))

    def examine(self) -> Postmortem:
        folder = self.folder.parent / "dumps"
        folder.mkdir(exist_ok=True)
        for rank, entries in enumerate(self.entries):
            write(folder, rank, entries)
        return examine(self.folder, self.folder, None, folder)


@pytest.fixture
def both(tmp_path: Path) -> Both:
    folder = tmp_path / "rings"
    folder.mkdir()
    return Both(folder)


def _all_but_rank_1_wait_in_number_2(both: Both) -> None:
    for rank in range(3):
        both.passed(rank, 1)
        both.issued(rank)
    for rank in (0, 2):
        both.waits(rank, 2)
        both.issued(rank, "started")


def test_rings_and_dumps_each_name_the_rank_and_each_sentence_names_its_source(both):
    _all_but_rank_1_wait_in_number_2(both)
    found = both.examine()

    by_rings, by_dumps = verdict(found)
    assert by_rings.startswith("by the rings: rank 1 is stuck")
    assert by_dumps.startswith("by PyTorch's dumps: rank 1 did not enter all_reduce number 2 of group default_pg")
    assert (
        "by the rings: rank 0 waits in all_reduce number 2 of group default_pg, which rank 1 did not enter"
        in as_text(found)
    )


def test_where_only_the_dumps_know_who_waits_they_come_first(both):
    """As with NCCL, where no rank is seen to wait."""
    for rank in range(3):
        both.passed(rank, 1)
        both.issued(rank)
    for rank in (0, 2):
        both.passed(rank, 2)
        both.issued(rank, "scheduled")
    first, *others = verdict(both.examine())

    assert first.startswith("by PyTorch's dumps: rank 1 did not enter all_reduce number 2")
    assert others[0] == "by the rings: no rank is known to wait for another"


def test_a_rank_with_a_dump_and_without_a_ring_is_in_the_table(both):
    _all_but_rank_1_wait_in_number_2(both)
    both.rings[1].path.unlink()
    found = both.examine()

    row = next(line for line in as_text(found).splitlines() if line.startswith("1 "))
    assert "completed all_reduce" in row
    assert row.endswith("a dump of PyTorch")


def test_dumps_are_found_where_the_run_says_that_pytorch_writes_them(both, tmp_path):
    run = tmp_path / "data" / "run"
    process = run / "host-rank0"
    process.mkdir(parents=True)
    _all_but_rank_1_wait_in_number_2(both)
    both.examine()
    manifest = {"run_id": "run", "rank": 0, "torch_dumps": str(tmp_path / "dumps" / "trace_")}
    (process / "manifest.json").write_text(json.dumps({**manifest, "started_unix_nano": 1}))
    found = examine(run, both.folder)
    assert [one.missing for one in found.dumps.absences] == [(1,)]

    (process / "manifest.json").write_text(json.dumps({**manifest, "started_unix_nano": time.time_ns()}))
    found = examine(run, both.folder)
    assert found.dumps.dumps == []
    assert "note: 3 dumps of PyTorch's flight recorder are older than the run" in as_text(found)


def test_without_dumps_nothing_is_said_of_them(both):
    both.waits(0, 1)
    text = as_text(examine(both.folder, both.folder))
    assert "dump" not in text
    assert "by the rings" not in text


def test_the_default_group_of_the_fixtures_is_the_one_of_the_rings():
    assert ALL.startswith("\t".join(DEFAULT))
