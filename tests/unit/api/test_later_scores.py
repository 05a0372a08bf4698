"""Scores and judgements of rollouts by name, handle or thread, also after their end: in the row, or joined to it."""

from __future__ import annotations

import contextvars
import sys
import threading
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from opentelemetry import propagate
from opentelemetry import trace as trace_api
from opentelemetry.context import attach, detach
from support.reward_readers import log_of, reward_means, rows, tables_of

import otel_rl
from otel_rl.api import sample_ids
from otel_rl.report.core.later_words import said_of
from otel_rl.report.subjects.trajectories import groups
from otel_rl.telemetry import drops, open_trajectory, propagation
from otel_rl.telemetry.scope import Scope
from otel_rl.training import trajectories, trajectory_changes, trajectory_rows, trajectory_shares
from otel_rl.training.trajectory_shares import TrajectoryName


class Pair(NamedTuple):
    """Ids in a tuple."""

    group_id: int
    rollout_id: str


@pytest.fixture
def logs(recorded):
    """Gives the records of rollouts, and of changes, as the readers see them."""
    trajectories._forget()
    trajectory_shares.forget()

    def found():
        trajectories.record()
        trajectory_changes.record()
        return [log_of(record) for record in recorded.events() if record.event_name.startswith("rl.trajectories")]

    yield found
    trajectories._forget()
    trajectory_shares.forget()


def joined(logs, *, ahead=True):
    """The rows by id with all changes in them, whatever came first, and what is said of the others."""
    told = logs if ahead else logs[::-1]
    return {row.get("rl.rollout.id"): row for row in rows(*told)}, said_of(tables_of(*told))


def test_what_is_said_before_the_row_is_made_is_in_the_row(logs, recorded):
    with otel_rl.step(1):
        with otel_rl.rollout(rollout_id="r") as it:
            with otel_rl.tool("search") as tool:
                tool.fail("timeout")
            otel_rl.reward("exact", 0.0)
        it.reward("judge", 0.75, weight=2.0, turn=2, parts={"style": 1.0}, success=True)
        otel_rl.reward("judge", 0.25, weight=2.0, rollout="r")
        otel_rl.reward("judge", 1.0, weight=2.0, rollout=it)
    [log] = logs()
    [row] = rows(log)
    assert row.scores == {"exact": 0.0, "judge": 2.0, "judge/style": 1.0}
    assert row.get("rl.rollout.reward") == 4.0
    assert row.get("rl.rollout.turn_rewards") == [None, 1.5]
    assert row.get("rl.rollout.cumulative_rewards") == [0.0, 1.5]
    assert row.get("rl.rollout.success") is True
    assert row.get("rl.rollout.suspect") is None
    assert reward_means(recorded)[1]["reward"] == 4.0
    events = recorded.events("gen_ai.evaluation.result")
    assert {event.attributes["rl.rollout.id"] for event in events} == {"r"}


@pytest.mark.parametrize("ahead", [True, False], ids=["run that has ended", "run that goes on"])
def test_what_is_said_after_the_row_is_made_joins_it_in_the_readers(logs, ahead):
    with otel_rl.step(1):
        handles = {}
        for name in "abc":
            with otel_rl.rollout(rollout_id=name, group_id="g") as handles[name]:
                otel_rl.reward("exact", 1.0)
    logs()
    handles["a"].train(0.5, estimator="dr_grpo")
    handles["a"].reward("judge", 2.0, weight=0.5, turn=1)
    otel_rl.reward("exact", -1.0, rollout="b")
    handles["b"].discard("stale")
    handles["c"].train(-0.5, estimator="dr_grpo")
    handles["c"].reward("judge", 4.0, weight=0.5, parts={"style": 3.0})
    handles["c"].succeed()
    found, said = joined(logs(), ahead=ahead)
    assert said == []
    assert {name: row.get("rl.rollout.reward") for name, row in found.items()} == {"a": 2.0, "b": 0.0, "c": 3.0}
    assert found["a"].scores == {"exact": 1.0, "judge": 2.0}
    assert found["b"].scores == {"exact": 0.0}
    assert found["c"].scores == {"exact": 1.0, "judge": 4.0, "judge/style": 3.0}
    assert found["a"].weights == {"judge": 0.5}
    assert found["c"].weights == {"judge": 0.5, "judge/style": 0.0}
    assert found["a"].get("rl.rollout.turn_rewards") == [1.0]
    assert [row.get("rl.rollout.status") for row in found.values()] == ["finished", "discarded", "finished"]
    assert [row.get("rl.rollout.trained") for row in found.values()] == [True, None, True]
    assert found["c"].get("rl.rollout.success") is True
    assert found["a"].estimator == "dr_grpo"


def test_a_change_makes_no_row_where_there_are_more_functions_than_rows(logs):
    with otel_rl.step(1), otel_rl.rollout(rollout_id="a") as it:
        for name in ("exact", "format", "length"):
            otel_rl.reward(name, 1.0)
    logs()
    it.reward("judge", 0.5)
    found, _ = joined(logs())
    assert {name: row.scores for name, row in found.items()} == {
        "a": {"exact": 1.0, "format": 1.0, "length": 1.0, "judge": 0.5}
    }


def test_groups_and_their_advantages_are_judged_by_the_later_rewards(logs):
    with otel_rl.step(1):
        handles = []
        for _ in range(4):
            with otel_rl.rollout(group_id="g") as it:
                pass
            handles.append(it)
    logs()
    for it, reward, advantage in zip(handles, (1.0, 0.0, 0.5, 0.5), (0.5, -0.5, 0.0, 0.0), strict=True):
        it.reward("judge", reward)
        it.train(advantage, estimator="dr_grpo")
    tables = tables_of(*logs())
    found = groups.of_run(SimpleNamespace(tables=tables, answers={}))
    assert (found.compared, found.dead) == (1, 0)
    assert (found.checked.samples, found.checked.differing) == (4, 0)
    assert tables.value("SELECT sum(trained) FROM sample") == 4
    assert tables.value("SELECT avg(reward) FROM sample") == 0.5


def test_a_zero_after_a_failure_is_suspect_by_a_later_score_too(logs):
    with otel_rl.step(1):
        for name in ("was", "is"):
            with otel_rl.rollout(rollout_id=name):
                with otel_rl.tool("search") as tool:
                    tool.fail("timeout")
                if name == "was":
                    otel_rl.reward("exact", 0.0)
    logs()
    otel_rl.reward("exact", 1.0, rollout="was")
    otel_rl.reward("exact", 0.0, rollout="is")
    found, _ = joined(logs())
    assert {name: row.get("rl.rollout.suspect") for name, row in found.items()} == {"was": None, "is": True}


@pytest.mark.parametrize("ahead", [True, False], ids=["run that has ended", "run that goes on"])
def test_the_lowest_of_later_rewards_is_suspect_after_a_failure(logs, ahead):
    """-1 where a rollout fails: told after all rows are made, also for the first of them."""
    handles = []
    for number in range(24):
        with otel_rl.rollout(rollout_id=str(number)) as it, otel_rl.tool("search") as tool:
            if number % 6 == 0:
                tool.fail("timeout")
        handles.append(it)
    logs()
    for number, it in enumerate(handles):
        it.reward("exact", -1.0 if number % 6 == 0 else number % 2)
    found, _ = joined(logs(), ahead=ahead)
    suspect = {name for name, row in found.items() if row.get("rl.rollout.suspect")}
    assert suspect == {"0", "6", "12", "18"}


def test_scores_that_name_no_rollout_are_kept_and_told(logs):
    with otel_rl.rollout(rollout_id=7):
        pass
    logs()
    otel_rl.reward("exact", 1.0, rollout=7)
    otel_rl.reward("exact", 1.0, rollout="nobody")
    found, said = joined(logs())
    assert found["7"].scores == {"exact": 1.0}
    assert said == ["1 later score or judgement names no rollout of this run."]


@pytest.mark.parametrize("ahead", [True, False], ids=["run that has ended", "run that goes on"])
@pytest.mark.parametrize("name", [TrajectoryName(None, "same"), TrajectoryName(None, None, "prompt")])
def test_a_score_by_an_id_that_several_rows_have_joins_none(logs, name, ahead):
    for _ in range(2):
        with otel_rl.rollout(rollout_id="same", sample_id="prompt"):
            pass
        logs()
    trajectory_shares.tell_by_name(name, lambda share: share.add_reward("exact", 1.0))
    found, said = joined(logs(), ahead=ahead)
    assert found["same"].scores == {}
    assert said == ["1 later score or judgement names several rollouts of this run, and joined none of them."]


def test_rollouts_of_one_trace_have_each_its_own_changes(logs):
    """As agents inside of one span of the program."""
    provider = trace_api.get_tracer_provider()
    with otel_rl.step(1), provider.get_tracer("program").start_as_current_span("program") as span:
        trace = trace_api.format_trace_id(span.get_span_context().trace_id)
        for name in "abc":
            trajectory = open_trajectory.OpenTrajectory(name)
            ended = trajectory_rows.Ended(trajectory, {"rl.rollout.id": name}, span, 1.0, None)
            trajectory_rows.add(Scope("langchain"), "agent", ended)
    logs()
    for reward, name in enumerate("abc"):
        trajectory_shares.tell_by_name(
            TrajectoryName(trace, name), lambda share, reward=reward: share.add_reward("exact", reward)
        )
    for ahead in (True, False):
        found, said = joined(logs(), ahead=ahead)
        assert ({name: row.scores for name, row in found.items()}, said) == (
            {"a": {"exact": 0}, "b": {"exact": 1}, "c": {"exact": 2}},
            [],
        )


def test_a_change_in_another_trace_of_its_rollout_is_found_by_the_id(logs):
    with otel_rl.rollout(rollout_id="r"):
        pass
    logs()
    trajectory_shares.tell_by_name(TrajectoryName("0" * 31 + "1", "r"), lambda share: share.add_reward("exact", 1.0))
    found, said = joined(logs())
    assert (found["r"].scores, said) == ({"exact": 1.0}, [])


@pytest.mark.parametrize("rollout", [object(), True, 1.5, b"r"])
def test_what_is_no_id_is_counted_and_the_score_is_that_of_no_rollout(logs, recorded, rollout):
    drops.reset()
    with otel_rl.rollout(rollout_id="r"):
        otel_rl.reward("exact", 1.0, rollout=rollout)
    [log] = logs()
    assert "rl.rollout.reward" not in log.body
    assert drops.snapshot() == {("logs", "unsupported_type"): 1}
    drops.reset()


def test_a_score_by_name_has_the_ids_of_no_other_rollout(logs, recorded):
    with otel_rl.rollout(rollout_id="a"):
        pass
    with otel_rl.rollout(rollout_id="around", sample_id="other", group_id="other"):
        otel_rl.reward("exact", 1.0, rollout="a")
    [event] = recorded.events("gen_ai.evaluation.result")
    assert event.attributes["rl.rollout.id"] == "a"
    assert "rl.sample.id" not in event.attributes
    assert "rl.group.id" not in event.attributes


def test_changes_that_have_no_room_are_counted_and_told(logs, monkeypatch):
    monkeypatch.setattr(trajectory_shares, "MAXIMUM", 1)
    drops.reset()
    otel_rl.reward("exact", 1.0, rollout="first")
    otel_rl.reward("exact", 1.0, rollout="second")
    [log] = logs()
    assert log.body["rl.rollout.id"] == ["first"]
    assert log.attributes["rl.trajectories.left_out"] == 1
    assert drops.snapshot() == {("logs", "trajectory_limit"): 1}
    assert joined([log])[1][-1] == "1 later score or judgement was dropped: too many at once."
    drops.reset()


def test_an_ended_rollout_takes_scores_by_its_handle_and_none_by_context(logs):
    with otel_rl.step(1):
        with otel_rl.rollout(rollout_id="r") as it:
            outlived = contextvars.copy_context()
        outlived.run(otel_rl.reward, "exact", 5.0)
        outlived.run(it.reward, "exact", 1.0)
    [log] = logs()
    assert log.body["rl.rollout.reward"] == [1.0]


def test_the_io_thread_records_changes_together(io_thread, logs, recorded):
    with otel_rl.rollout(rollout_id="r") as it:
        pass
    io_thread.flush_now()
    for number in range(3):
        it.reward("exact", number)
        otel_rl.reward("exact", number, rollout="elsewhere")
    io_thread.flush_now()
    [change] = recorded.events("rl.trajectories.changes")
    assert change.body["rl.rollout.id"] == ["r", "elsewhere"]
    assert change.body["rl.rollout.reward"] == [3.0, 3.0]


def test_no_thread_of_a_rollout_loses_a_score_or_a_value(logs):
    threads, rounds = 8, 1500
    with otel_rl.rollout() as it:
        trajectory = open_trajectory.current()

    def work():
        for _ in range(rounds):
            trajectory.add_reward("exact", 1.0, turn=1)
            trajectory.add_part("exact/part", 1.0)
            trajectory.add_metric("hops", 1)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    [log] = logs()
    [row] = rows(log)
    assert row.get("rl.rollout.reward") == threads * rounds
    assert row.get("rl.rollout.turn_rewards") == [threads * rounds]
    assert row.scores == {"exact": threads * rounds, "exact/part": threads * rounds}
    assert row.metrics == {"hops": threads * rounds}
    assert it is not None


def test_scores_of_many_threads_while_the_row_is_made_are_in_row_and_changes(logs):
    """Whether one comes before or after the row, it counts once."""
    threads, rounds = 4, 300
    with otel_rl.rollout(rollout_id="r") as it:
        pass
    started = threading.Barrier(threads + 1)

    def work():
        started.wait()
        for _ in range(rounds):
            it.reward("exact", 1.0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        started.wait()
        trajectories.record()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    found, said = joined(logs())
    assert (found["r"].get("rl.rollout.reward"), said) == (threads * rounds, [])


def test_a_score_in_a_request_of_a_rollout_elsewhere_joins_its_row(logs):
    headers: dict[str, str] = {}
    with otel_rl.rollout(rollout_id="r"):
        propagate.inject(headers)
    [row] = logs()
    open_trajectory._by_id.clear()  # the rollout is one of another process
    token = attach(propagation.extract(headers))
    try:
        otel_rl.reward("judge", 0.5)
        with otel_rl.reward_function("rule") as rule:
            rule.score(0.25)
    finally:
        detach(token)
    found, said = joined(logs())
    assert (found["r"].scores, said) == ({"judge": 0.5, "rule": 0.25}, [])
    assert row.body["rl.rollout.trace_id"] == [found["r"].get("rl.rollout.trace_id")]


def test_ids_of_a_sample_are_read_without_code_of_the_program():
    class Loud:
        """Answers everything."""

        def __getattribute__(self, name):
            raise AssertionError(name)

    class Slotted:
        """Has one id, and one that is not set."""

        __slots__ = ("rollout_id", "sample_id")

    class Computed:
        """Has an id that code makes."""

        @property
        def rollout_id(self):
            raise AssertionError

    slotted = Slotted()
    slotted.sample_id = 7
    pair = Pair(1, "r")
    assert sample_ids.of_arguments({"loud": Loud(), "computed": Computed(), "sample": slotted, "pair": pair}) == (
        "r",
        "7",
        "1",
        None,
    )
    assert sample_ids.of_arguments({"rollout_id": True, "sample": {"sample_id": 1.5, "group_id": ""}}) == (
        None,
        None,
        None,
        None,
    )
    assert sample_ids.of_arguments({"args": (1, {"sample_id": "s"}), "kwargs": {"x": {"rollout_id": 2}}}) == (
        "2",
        "s",
        None,
        None,
    )
