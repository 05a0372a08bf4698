"""Rings of several ranks: where the waits end."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from written_ranks import ALL, PAIR, Ranks

from otel_rl.cli import main
from otel_rl.flight_recorder import collective_places, files, layout
from otel_rl.flight_recorder.copies import COPY
from otel_rl.flight_recorder.ring import Ring, create
from otel_rl.process import lifetime
from otel_rl.ranks.postmortem import examine, rings
from otel_rl.ranks.postmortem.text import as_json, as_text, verdict, waits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def _names(states) -> list[int]:
    return [one.ring.rank for one in states]


def test_the_rank_that_did_not_enter_is_the_origin(ranks):
    for rank in range(3):
        ranks.passed(rank, 1)
    ranks.waits(0, 2)
    ranks.waits(2, 2)
    ranks.opens(1, layout.STEP, "", 5)
    ranks.opens(1, layout.TOOL, "search")
    found = ranks.examine()

    assert _names(found.waits.origins) == [1]
    assert {(wait.waiting.ring.rank, wait.missing.ring.rank) for wait in found.waits.waits} == {(0, 1), (2, 1)}
    (sentence,) = verdict(found)
    assert "rank 1 is stuck in step 5 (tool search) and did not enter all_reduce number 2" in sentence


def test_calls_that_are_open_at_once_are_counted_and_not_said_to_be_in_each_other(ranks):
    ranks.opens(0, layout.STEP, "", 5)
    ranks.opens(0, layout.PHASE, "sample")
    for call in ("search", "fetch", "search", "lint", "search", "shell", "sql"):
        ranks.opens(0, layout.TOOL, call)
    ranks.opens(0, layout.PHASE, "generate")

    assert ranks.examine().ranks[0].inside == [
        "sample", "generate", "3 x tool search, tool fetch, tool lint, tool shell, 1 more",
    ]  # fmt: skip


def test_a_chain_over_groups_ends_at_its_last_rank(ranks):
    ranks.waits(0, 1)
    ranks.waits(1, 1, PAIR)
    found = ranks.examine()
    assert _names(found.waits.origins) == [2]
    assert len(found.waits.waits) == 3


def test_ranks_that_wait_for_each_other_in_two_groups_are_a_deadlock(ranks):
    ranks.passed(0, 1)
    ranks.waits(1, 1)
    ranks.waits(2, 1, PAIR)
    found = ranks.examine()
    assert found.waits.origins == []
    assert sorted(_names(found.waits.circle)) == [1, 2]
    assert verdict(found)[0] == "deadlock: rank 1 waits for rank 2 waits for rank 1"


def test_different_operations_under_one_number_are_named(ranks):
    ranks.waits(0, 1)
    ranks.waits(1, 1, operation="broadcast")
    ranks.waits(2, 1)
    assert any("rank 1 issued broadcast under the same number" in sentence for sentence in verdict(ranks.examine()))


def test_a_collective_that_all_have_entered_is_slow(ranks):
    for rank in range(3):
        ranks.waits(rank, 1)
    assert verdict(ranks.examine()) == [
        "all ranks are in all_reduce number 1 of group default_pg: it is slow, or the network is"
    ]


def test_a_wait_that_failed_counts_as_one(ranks):
    ring = ranks.rings[0]
    ranks.passed(0, 1)
    ring.end(ring.begin(layout.WAIT, "all_reduce", 0, ALL, 1), True)
    ranks.waits(1, 1)
    assert _names(ranks.examine().waits.origins) == [2]


def test_a_wait_that_failed_and_was_followed_by_another_collective_is_over(ranks):
    ring = ranks.rings[0]
    ring.end(ring.begin(layout.WAIT, "all_reduce", 0, ALL, 1), True)
    ranks.passed(0, 2)
    assert ranks.examine().waits.waits == []


def test_sends_and_receives_have_no_number_and_nobody_is_blamed(ranks):
    ranks.waits(0, 0, operation="recv")
    found = ranks.examine()
    assert found.waits.waits == []
    assert found.ranks[0].collective.operation == "recv"


def test_a_ring_that_has_lost_its_oldest_records_is_not_blamed_for_a_group_that_it_does_not_name(ranks):
    ranks.passed(1, 1)
    for number in range(1, layout.COLLECTIVES + 1):
        ranks.passed(1, number, PAIR)
    ranks.waits(0, 5)
    assert _names(ranks.examine().waits.origins) == [2]


def test_of_two_processes_with_one_rank_the_one_in_the_group_counts(ranks):
    ranks.add(1, run="run")
    ranks.waits(0, 1)
    ranks.waits(1, 1)
    assert _names(ranks.examine().waits.origins) == [2]


def _leave_a_copy(ranks, rank):
    path = ranks.rings[rank].path
    (ranks.folder / COPY).write_bytes(path.read_bytes())
    path.unlink()


def test_a_copy_from_before_a_wait_does_not_tell_whether_its_rank_entered(ranks):
    for rank in range(3):
        ranks.passed(rank, 1)
        ranks.opens(rank, layout.STEP, "", 3 + (rank != 1))
    _leave_a_copy(ranks, 1)
    ranks.waits(0, 2)
    ranks.waits(2, 2)
    found = ranks.examine()

    assert found.waits.waits == []
    assert verdict(found) == ["no rank is known to wait for another"]
    text = as_text(found)
    assert "whether rank 1 entered it is not known: only a copy of its ring from before that was found" in text
    assert "seen up to the copy of its ring" in text
    assert "was found of rank 1: where it was later is not known" in text


def test_a_copy_from_during_a_wait_tells_who_is_waited_for(ranks):
    for rank in range(3):
        ranks.passed(rank, 1)
    ranks.waits(0, 2)
    ranks.waits(2, 2)
    ranks.rings[1].beat()
    _leave_a_copy(ranks, 1)
    assert _names(ranks.examine().waits.origins) == [1]


def test_ranks_without_a_ring_are_listed(ranks):
    ranks.rings[1].path.unlink()
    ranks.waits(0, 1)
    found = ranks.examine()
    assert list(found.missing) == [1]
    assert "no ring and no files" in as_text(found)


def test_only_the_newest_attempt_counts(ranks):
    restarted = ranks.add(0, attempt="0.1.0")
    found = ranks.examine()
    assert [one.ring.path for one in found.ranks] == [restarted.path]
    assert "3 processes of earlier attempts are left out" in found.notes


def test_a_ring_that_cannot_be_read_is_named_and_the_others_are_read(ranks):
    path = ranks.rings[2].path
    path.write_bytes(path.read_bytes()[:5000])
    found = ranks.examine()
    assert _names(one for one in found.ranks) == [0, 1]
    assert any("cut after 5000" in note for note in found.notes)


def test_where_nobody_is_known_to_wait_the_ranks_in_the_lowest_step_are_named(ranks):
    for rank, step in ((0, 5), (1, 4), (2, 5)):
        ranks.opens(rank, layout.STEP, "", step)
    assert verdict(ranks.examine()) == ["no rank is known to wait for another; the lowest step is 4, of rank 1"]


def test_the_cause_is_what_the_parent_has_seen(ranks):
    ranks.tells(lifetime.own(), -9)
    found = ranks.examine()
    assert found.ranks[0].cause == f"killed by SIGKILL (reported by a parent, pid {os.getpid()})"
    assert found.ranks[0].state == "gone"
    assert as_json(found)["ranks"][0]["exit"]["status"] == -9


@pytest.mark.parametrize(
    ("has_ended", "words"), [(True, "before the last sign of the run; killed"), (False, "ago; ru")]
)
def test_times_are_told_from_now_while_the_run_lasts_and_else_from_its_last_sign(ranks, has_ended, words):
    for rank in range(3):
        ranks.passed(rank, 1)
    ranks.waits(0, 2)
    ranks.waits(2, 2)
    if has_ended:
        ranks.tells(lifetime.own(), -9)
    assert f" s {words}" in verdict(ranks.examine())[0]


def test_the_end_of_an_earlier_process_with_the_same_pid_is_not_taken_for_it(ranks):
    ranks.tells(lifetime.own()._replace(start_ticks=1), -9)
    assert ranks.examine().ranks[0].cause == "running"


@pytest.mark.parametrize(
    ("reason", "status", "cause"),
    [
        ("", 0, "ended in order"),
        ("", 3, "exited with status 3 (reported by a parent, pid"),
        ("uncaught ValueError", 1, "uncaught ValueError"),
        ("uncaught ValueError", -6, "uncaught ValueError; killed by SIGABRT (reported by a parent, pid"),
    ],
)
def test_after_an_orderly_end_the_status_is_told_where_it_says_more(ranks, reason, status, cause):
    ranks.rings[0].finish(reason)
    ranks.tells(lifetime.own(), status)
    found = ranks.examine().ranks[0]
    assert found.state == "ended"
    assert found.cause.partition(str(os.getpid()))[0].strip() == cause


@pytest.mark.parametrize("beats", [True, False])
def test_a_silent_process_is_said_to_be_silent_also_one_that_never_gave_a_heartbeat(ranks, monkeypatch, beats):
    if beats:
        ranks.rings[0].beat()
    assert "no heartbeat" not in ranks.examine().ranks[0].cause
    monkeypatch.setattr("otel_rl.ranks.postmortem.ranks.SILENT", 0.0)
    if not beats:
        # Nobody has promised one before the first step.
        assert "no heartbeat" not in ranks.examine().ranks[0].cause
        step = ranks.rings[0].begin(layout.STEP, "", 1)
        ranks.rings[0].end(step)
    assert "no heartbeat for 0 s: it may hold the GIL" in ranks.examine().ranks[0].cause


def test_the_command_prints_a_table_or_json_and_succeeds(ranks, capsys):
    ranks.waits(0, 1)
    assert main(["postmortem", str(ranks.folder)]) == 0
    assert "waits in all_reduce" in capsys.readouterr().out
    assert main(["postmortem", str(ranks.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["origins"] == [1, 2]


def test_the_command_refuses_a_folder_without_rings_and_names_the_rings_of_the_node(ranks, tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["postmortem", str(empty), "--ring-dir", str(empty)]) == 2
    assert "is empty" in capsys.readouterr().err
    assert main(["postmortem", str(empty), "--ring-dir", str(ranks.folder)]) == 2
    assert f"{ranks.folder} holds 3 rings: give it as DIR" in capsys.readouterr().err


def test_the_command_refuses_a_run_that_left_no_ring(tmp_path, capsys):
    process = tmp_path / "run" / "host-rank0"
    process.mkdir(parents=True)
    (process / "manifest.json").write_text('{"run_id": "run", "rank": 0}')
    rings = tmp_path / "rings"
    rings.mkdir()
    assert main(["postmortem", str(tmp_path / "run"), "--ring-dir", str(rings)]) == 2
    assert "run run has no ring in" in capsys.readouterr().err


def test_where_nobody_is_seen_to_wait_the_ranks_behind_are_named(ranks):
    """As with NCCL, whose launches and waits return at once."""
    for rank, last in ((0, 5), (1, 4), (2, 5)):
        for number in range(1, last + 1):
            ranks.passed(rank, number)
    found = ranks.examine()

    assert found.waits.waits == []
    assert "rank 1 entered fewer collectives of group default_pg than 5" in as_text(found)


def test_a_group_of_ranks_without_end_is_one_of_unknown_ranks(ranks):
    for rank in range(3):
        ranks.passed(rank, 1, "0\tdefault_pg\t0-99999999999")

    assert next(iter(ranks.examine().ranks[0].entered)).group.members is None


def _failed_launch(ranks: Ranks, rank: int, number: int) -> None:
    ring = ranks.rings[rank]
    ring.end(ring.begin(layout.COLLECTIVE, "all_reduce", 0, ALL, number), True)
    ring.count_failed_launch(ALL, 1)


def test_after_a_launch_that_failed_in_one_rank_no_wait_is_claimed(ranks):
    _failed_launch(ranks, 1, 1)
    ranks.passed(2, 1)
    ranks.passed(0, 1)
    ranks.waits(0, 2)
    found = ranks.examine()

    assert [wait.missing.ring.rank for wait in found.waits.waits] == [2]
    (sentence,) = as_json(found)["not_known"]
    assert sentence.startswith(
        "rank 0 waits in all_reduce number 2 of group default_pg; whether rank 1 entered it is not"
    )
    assert "a launch of the group has failed in one of them" in sentence
    assert sentence in as_text(found)


def test_after_launches_that_failed_in_all_ranks_their_numbers_are_compared(ranks):
    for rank in range(3):
        _failed_launch(ranks, rank, 1)
    ranks.waits(0, 2)
    assert _names(ranks.examine().waits.origins) == [1, 2]


def test_groups_for_which_the_ring_had_no_name_are_not_compared(ranks):
    """They would be taken for one."""
    for number in range(layout.GROUPS.length):
        ranks.passed(0, 1, f"{number}\tgroup\t0-2")
        ranks.passed(1, 1, f"{number}\tgroup\t0-2")
    ranks.waits(0, 7, "a\tlate\t0-1")
    ranks.waits(1, 3, "another\tlate\t0-1")
    found = ranks.examine()

    assert found.waits.waits == []
    assert "more groups than the ring has names for" in as_text(found)
    assert not any("of group _OTHER than" in sentence for sentence in verdict(found))


def _by_cpp(ring: Ring, number: int, group: str = ALL) -> None:
    what = ring.collective("all_reduce", group) + layout.IS_NUMBERED_BY_TORCH + number
    ring.places.begin(what, collective_places.clock())


def test_numbers_of_torch_and_of_python_are_not_compared(ranks):
    for rank in range(3):
        ranks.passed(rank, 1)
    _by_cpp(ranks.rings[0], 9)
    _by_cpp(ranks.rings[1], 8)
    found = ranks.examine()

    assert {(wait.waiting.ring.rank, wait.missing.ring.rank) for wait in found.waits.waits} == {(0, 1)}
    assert any("rank 2 recorded none of the collectives of C++ code" in one for one in as_json(found)["not_known"])


def test_ranks_in_collectives_of_one_group_that_are_numbered_apart_wait_for_each_other(ranks):
    """Two ranks average gradients, the third has had fewer batches and averages its validation."""
    for rank in range(3):
        ranks.by_torch(rank, 8, has_ended=True)
    ranks.by_torch(0, 9)
    ranks.by_torch(1, 9)
    ranks.waits(2, 1)
    found = ranks.examine()
    assert as_json(found)["not_known"] == []
    assert waits(found) == [
        "rank 0 waits in all_reduce number 9 of group default_pg as torch counts, which rank 2 did not enter",
        "rank 1 waits in all_reduce number 9 of group default_pg as torch counts, which rank 2 did not enter",
        "rank 2 waits in all_reduce number 1 of group default_pg as Python counts, which ranks 0, 1 did not enter",
    ]
    assert verdict(found)[0].startswith("deadlock: rank ")


def test_where_the_number_of_torch_is_not_known_no_wait_is_claimed(ranks):
    _by_cpp(ranks.rings[0], 9)
    _by_cpp(ranks.rings[1], 0)
    _by_cpp(ranks.rings[2], 9)
    found = ranks.examine()
    assert found.waits.waits == []
    assert "two threads used the group at once" in as_text(found)


def test_a_rank_that_others_wait_for_and_that_waits_itself_is_said_to(ranks):
    ranks.waits(0, 1)
    ranks.passed(2, 1)
    ring = ranks.rings[1]
    ring.places.begin(ring.collective("recv", PAIR) + layout.HAS_NO_NUMBER, collective_places.clock())
    (sentence,) = verdict(ranks.examine())
    assert "it waits in recv of group pair, for whom is not known" in sentence


def test_open_operations_without_a_place_are_counted_in_the_text(ranks):
    for _ in range(layout.CALL_ENTRIES + 2):
        ranks.opens(0, layout.TOOL, "search")
    text = as_text(ranks.examine())
    assert "rank 0 has 2 more operations open (no collectives) than its ring has places" in text


def test_only_the_headers_of_other_runs_are_read(ranks, monkeypatch):
    ranks.add(0, run="other")
    read_in_full = []
    monkeypatch.setattr(rings, "_read", functools.partial(_reading, rings._read, read_in_full))
    assert examine(ranks.folder, ranks.folder, "run").run_id == "run"
    assert len(read_in_full) == 3


def _reading(original, read_in_full, paths, notes, owners=None, how=rings.read):
    found = original(paths, notes, owners, how)
    if how is rings.read:
        read_in_full.extend(found)
    return found


def test_a_run_id_longer_than_a_header_has_room_for_is_found(tmp_path):
    run = "long" * 75
    process = tmp_path / "data" / run[:200] / "host-rank0"
    process.mkdir(parents=True)
    (process / "manifest.json").write_text(json.dumps({"run_id": run, "rank": 0}))
    folder = tmp_path / "rings"
    folder.mkdir()
    ring = create(folder, files.name(run, "host", 0))
    ring.identify(run, "0.0.0", "host", (0, 1, 0))
    assert [one.ring.rank for one in examine(tmp_path / "data", folder).ranks] == [0]


def test_rings_without_a_run_id_are_shown_only_where_there_are_no_others(ranks):
    ranks.add(0, run="")
    found = ranks.examine()
    assert found.run_id == "run"
    assert "1 rings have no run id" in found.notes
    for ring in ranks.rings:
        ring.path.unlink()
    assert ranks.examine().run_id == "without an id"


def test_the_command_ends_quietly_when_nobody_reads_its_output(ranks):
    program = "import sys; from otel_rl.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "postmortem", str(ranks.folder), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 141)
    process.stderr.close()


def test_a_collective_that_ranks_issue_as_different_operations_is_not_entered_by_all(ranks):
    for rank, operation in enumerate(("reduce_scatter", "all_gather", "reduce_scatter")):
        ranks.waits(rank, 10, operation=operation)
    sentences = verdict(ranks.examine())
    assert not any("all ranks are in" in sentence for sentence in sentences)
    assert any("rank 1 issued all_gather" in sentence for sentence in sentences)


def _by_thread(ranks, rank, number, operation, thread):
    ring = ranks.rings[rank]
    what = ring.collective(operation, ALL) + number + (thread << layout.THREAD_SHIFT)
    collective_places.end(ring.places.begin(what, collective_places.clock()), collective_places.clock(), False)
    ring.places.begin(what + layout.IS_WAIT, collective_places.clock())


def test_two_threads_that_issue_collectives_of_one_group_in_different_order_are_named(ranks):
    ranks.waits(0, 9)
    _by_thread(ranks, 0, 10, "reduce_scatter", 0)
    _by_thread(ranks, 0, 11, "all_gather", 1)
    ranks.passed(1, 9)
    _by_thread(ranks, 1, 10, "all_gather", 1)
    assert any(
        sentence == "rank 0 issued reduce_scatter number 10 of group default_pg, rank 1 issued all_gather under the"
        " same number: two threads issue collectives of this group, in an order that differs between ranks"
        for sentence in verdict(ranks.examine())
    )


def test_one_thread_that_issues_different_operations_takes_different_paths(ranks):
    _by_thread(ranks, 0, 1, "reduce_scatter", 1)
    _by_thread(ranks, 1, 1, "all_gather", 1)
    assert any(sentence.endswith("the program takes different paths") for sentence in verdict(ranks.examine()))
