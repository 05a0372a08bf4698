"""Records with a row per trajectory: what they hold, what they survive, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import math
import os
import threading
import weakref
from decimal import Decimal

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import ReadWriteLogRecord
from opentelemetry.sdk.resources import Resource

import otel_rl
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.requests import CHAT, ModelRequest
from otel_rl.inference.servers import server
from otel_rl.pipeline.processors import QueueLogRecordProcessor
from otel_rl.semconv import attributes
from otel_rl.telemetry import Scope, deferral, drops, lifecycle, open_trajectory
from otel_rl.telemetry.open_trajectory import MAXIMUM_REWARDS, OpenTrajectory
from otel_rl.training import steps, trajectories, trajectory_rows
from otel_rl.training.trajectory_columns import CHARACTERS_PER_RECORD, ROWS_PER_RECORD, Columns

scope = Scope("test")


@pytest.fixture(autouse=True)
def nothing_waits():
    trajectories._forget()
    yield
    trajectories._forget()


def bodies(recorded):
    trajectories.record()
    return [record.body for record in recorded.events("rl.trajectories")]


def answered(**usage):
    call = InferenceCall(scope, ModelRequest(CHAT, server("127.0.0.1", 80), {"model": "m"}))
    call.answer.observe({"choices": [{"finish_reason": "stop"}], "usage": usage, "metadata": {"weight_version": "12"}})
    call.finish()


def test_a_step_has_one_record_of_all_its_rollouts(recorded):
    with otel_rl.step(3):
        for number in range(3):
            with otel_rl.rollout(f"r-{number}", sample_id=7, group_id="g", policy_version=2):
                with otel_rl.tool("search") as call:
                    if number == 1:
                        call.fail("timeout")
                otel_rl.reward("exact", float(number != 1))
        assert recorded.events("rl.trajectories") == []

    [record] = recorded.events("rl.trajectories")
    assert record.trace_id == recorded.span("rl.loop").context.trace_id
    # Other tests have begun the steps of this process's loop before.
    own = {key: value for key, value in record.attributes.items() if key != "rl.trajectories.restarts"}
    assert own == {
        "rl.loop.iteration": 3,
        "rl.trajectories.step": 3,
        "rl.trajectories.source": "rollout",
        "rl.trajectories.started": 3,
    }
    body = record.body
    assert body["rl.rollout.id"] == ["r-0", "r-1", "r-2"]
    assert body["rl.group.id"] == ["g"] * 3
    assert body["rl.policy.version"] == ["2"] * 3
    assert body["rl.rollout.tool_calls"] == [1, 1, 1]
    assert body["rl.rollout.tool_errors"] == [0, 1, 0]
    assert body["rl.rollout.reward"] == [1.0, 0.0, 1.0]
    assert body["rl.rollout.suspect"] == [None, True, None]
    assert all(seconds > 0 for seconds in body["rl.rollout.seconds"])
    assert "rl.rollout.model_calls" not in body
    traces = [f"{span.context.trace_id:032x}" for span in recorded.spans if span.name == "rl.rollout"]
    assert body["rl.rollout.trace_id"] == traces


@pytest.mark.parametrize(
    ("given", "kept"), [(2, 2), (1 << 62, 1 << 62), (0, None), (-1, None), (1 << 63, None), ("2", 2), (1.5, None)]
)
def test_the_number_of_the_try_is_on_span_and_row_and_nothing_else_is_taken_for_one(recorded, given, kept):
    drops.reset()
    with otel_rl.step(1):
        with otel_rl.rollout("r", attempt=given):
            pass
    [span] = [span for span in recorded.spans if span.name == "rl.rollout"]
    assert span.attributes.get(attributes.RL_ROLLOUT_ATTEMPT) == kept
    [body] = bodies(recorded)
    assert body.get(attributes.RL_ROLLOUT_ATTEMPT) == (None if kept is None else [kept])
    assert drops.snapshot() == ({("traces", "unsupported_type"): 1} if kept is None else {})
    drops.reset()


def test_the_span_of_a_rollout_has_the_totals_of_its_calls(recorded):
    with otel_rl.rollout("r"):
        answered(prompt_tokens=10, completion_tokens=4)
        answered(prompt_tokens=20, completion_tokens=5)
        with otel_rl.tool("search"):
            pass

    values = recorded.span("rl.rollout").attributes
    expected = {"turns": 2, "model_calls": 2, "model_errors": 0, "tool_calls": 1, "tool_errors": 0}
    expected |= {"input_tokens": 30, "output_tokens": 9, "stop_reason": "stop"}
    expected |= {"policy_version.min": 12, "policy_version.max": 12}
    assert {key: values[f"rl.rollout.{key}"] for key in expected} == expected
    [body] = bodies(recorded)
    assert {key: body[f"rl.rollout.{key}"] for key in expected} == {key: [value] for key, value in expected.items()}


@pytest.mark.parametrize(
    ("error", "status"),
    [(RuntimeError(), "failed"), (asyncio.CancelledError(), "cancelled"), (KeyboardInterrupt(), "cancelled")],
)
def test_an_exception_decides_on_the_status(recorded, error, status):
    with pytest.raises(type(error)), otel_rl.rollout("r"):
        raise error
    assert bodies(recorded)[0]["rl.rollout.status"] == [status]


class Hostile:
    def __float__(self):
        raise RuntimeError("no number")

    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (1, 1),
        (True, True),
        (math.nan, None),
        (math.inf, None),
        (10**400, None),
        (1 << 63, None),
        (None, None),
        ({"score": 1}, None),
        ([1.0, None, math.nan, "2", [3]], [1.0, None, None, None, None]),
        ((1.0,), None),
        (b"1", None),
        (Hostile(), None),
        (Decimal(1), None),
        ("text\0\ud800", "text��"),
        ("x" * 1000, None),
    ],
)
def test_values_of_a_column_are_plain_or_left_out(recorded, given, kept):
    trajectories.add_batch(scope, "trainer", 1, 2, lambda: Columns({"rl.rollout.stop_reason": [given, "stop"]}, {}))
    found = bodies(recorded)[0]["rl.rollout.stop_reason"]
    if isinstance(given, str) and len(given) > 256:
        assert len(found[0]) == 256
    else:
        assert found == [kept, "stop"]


class Queue:
    def __init__(self):
        self.items = []

    def emit(self, item):
        self.items.append(item)


def test_a_record_of_many_rows_leaves_the_process_whole(recorded):
    rows = ROWS_PER_RECORD
    columns = {f"rl.rollout.column_{number}": [float(row) for row in range(rows)] for number in range(12)}
    trajectories.add_batch(scope, "trainer", 1, rows, lambda: Columns(columns, {"exact": [1.0] * rows}))
    [body] = bodies(recorded)

    queue = Queue()
    record = ReadWriteLogRecord(LogRecord(body=body), Resource.get_empty())
    QueueLogRecordProcessor(queue).on_emit(record)

    assert queue.items[0].log_record.body == {
        **columns,
        "rl.reward.names": ["exact"],
        "rl.reward.scores": [[1.0] * rows],
    }


def test_rewards_that_are_tensors_nan_none_or_dictionaries_cost_the_other_rows_nothing(recorded):
    torch = pytest.importorskip("torch")
    given = [torch.tensor(0.5), torch.tensor([1.0, 2.0]), math.nan, None, {"a": 1}, Hostile(), 2.0]
    trajectories.add_batch(scope, "trainer", 1, 7, lambda: Columns({"rl.rollout.id": list("abcdefg")}, {"r": given}))
    [body] = bodies(recorded)
    assert body["rl.rollout.id"] == list("abcdefg")
    assert body["rl.reward.scores"] == [[0.5, None, None, None, None, None, 2.0]]


def test_columns_that_are_too_short_or_too_long_keep_their_rows_in_place(recorded):
    columns = {"rl.rollout.id": ["a", "b"], "rl.rollout.turns": [1], "rl.rollout.tool_calls": [1, 2, 3]}
    trajectories.add_batch(scope, "trainer", 1, 2, lambda: Columns(columns, {}))
    trajectories.add_batch(scope, "trainer", 1, 1, lambda: Columns({"rl.rollout.id": ["c"]}, {}))
    [body] = bodies(recorded)
    assert body["rl.rollout.turns"] == [1, None, None]
    assert body["rl.rollout.tool_calls"] == [1, 2, None]
    assert body["rl.rollout.id"] == ["a", "b", "c"]


def test_a_record_has_at_most_512_rows_and_none_is_lost(recorded):
    ids = [str(number) for number in range(1300)]
    trajectories.add_batch(scope, "trainer", 1, 1300, lambda: Columns({"rl.rollout.id": ids}, {}))
    found = bodies(recorded)
    assert [len(body["rl.rollout.id"]) for body in found] == [512, 512, 276]
    assert [one for body in found for one in body["rl.rollout.id"]] == ids
    started = [record.attributes["rl.trajectories.started"] for record in recorded.events("rl.trajectories")]
    assert started == [1300, 0, 0]


@pytest.mark.parametrize(
    ("columns", "scores"),
    [
        ({"rl.rollout.turn_rewards": [[0.123456789012345] * 512] * 600}, {}),
        ({"rl.rollout.cumulative_rewards": [[0.5] * (512 * (row % 100 == 7)) for row in range(600)]}, {}),
        ({"rl.rollout.id": ["\N{GREEK SMALL LETTER PI}" * 256] * 600, "rl.group.id": ["g" * 256] * 600}, {}),
        ({}, {f"f{number}": [0.123456789012345] * 600 for number in range(32)}),
        ({"rl.rollout.id": ['"' * 256] * 600, "rl.group.id": ["\\" * 256] * 600}, {}),
        ({"rl.rollout.id": ["\x01" * 256] * 600, "rl.group.id": ["\x7f" * 256] * 600}, {}),
        ({"rl.rollout.id": ["\N{GRINNING FACE}" * 256] * 600}, {}),
        ({"rl.rollout.id": [-(1 << 63)] * 600, "rl.group.id": [1 << 62] * 600}, {}),
        ({"rl.rollout.trained": [False, None] * 300, "rl.rollout.success": [False] * 600}, {}),
        ({"rl.rollout.turn_rewards": [[-2.2250738585072014e-308] * 512] * 600}, {}),
        ({}, {f"{number}" + "n" * 250: [-2.2250738585072014e-308] * 600 for number in range(32)}),
        ({"rl.group.id": ['"'] + [None] * 599}, {"n" * 250: [0, -1] * 300}),
    ],
)
def test_a_record_has_fewer_rows_where_they_are_large_and_none_is_lost(recorded, columns, scores):
    numbers = list(range(600))
    columns = {"rl.rollout.turns": numbers, **columns}
    given = Columns(columns, scores, metrics=scores)
    trajectories.add_batch(scope, "trainer", 1, 600, lambda: given)
    made = bodies(recorded)
    sizes = [len(json.dumps(body)) for body in made]
    assert max(sizes) <= CHARACTERS_PER_RECORD
    assert all(size <= body.characters <= CHARACTERS_PER_RECORD for size, body in zip(sizes, made, strict=True))
    # No more records than that takes.
    assert len(made) <= 2 + 2 * sum(sizes) // CHARACTERS_PER_RECORD
    for key, values in columns.items():
        assert [value for body in made for value in body[key]] == values
    for name, values in scores.items():
        place = list(scores).index(name)
        for key in ("rl.reward.scores", "rl.rollout.metric.values"):
            assert [value for body in made for value in body[key][place]] == values
    started = [record.attributes.get("rl.trajectories.started") for record in recorded.events("rl.trajectories")]
    assert started == [600] + [0] * (len(made) - 1)


def test_the_longest_row_with_the_longest_names_is_within_the_bound_of_a_record(recorded):
    longest, smallest = "\N{GRINNING FACE}" * 300, -2.2250738585072014e-308
    texts = ("id", "trace_id", "status", "discard_reason", "policy_version")
    columns = {f"rl.rollout.{name}": [longest] * 3 for name in texts}
    columns |= {"rl.sample.id": [longest] * 3, "rl.group.id": [longest] * 3, "gen_ai.conversation.id": [longest] * 3}
    columns |= {f"rl.rollout.{name}_rewards": [[smallest] * 512] * 3 for name in ("turn", "cumulative")}
    functions = {f"{number}{longest}": [smallest] * 3 for number in range(32)}
    weights = dict.fromkeys(functions, smallest)
    trajectories.add_batch(scope, "trainer", 1, 3, lambda: Columns(columns, functions, weights, metrics=functions))
    made = bodies(recorded)
    assert sum(len(body["rl.rollout.id"]) for body in made) == 3
    assert all(len(json.dumps(body)) <= body.characters <= CHARACTERS_PER_RECORD for body in made)
    assert {len(body["rl.reward.names"]) for body in made} == {32}
    assert all("... [truncated, 30" in name for name in made[0]["rl.reward.names"])


def test_rows_beyond_the_limit_are_counted(recorded, monkeypatch):
    drops.reset()
    posted = []
    # An I/O thread that has not come to it yet.
    monkeypatch.setattr(deferral, "posting", lambda: True)
    monkeypatch.setattr(deferral, "post", lambda _, recording: posted.append(recording) or True)
    waiting = trajectories.MAXIMUM_ROWS - 2
    trajectories.add_batch(scope, "trainer", 1, waiting, lambda: Columns({"rl.rollout.turns": [1] * waiting}, {}))
    trajectories.add_batch(scope, "trainer", 1, 5, lambda: Columns({"rl.rollout.turns": [1] * 5}, {}))
    assert drops.snapshot()["logs", "trajectory_limit"] == 5
    posted.pop(0)()
    records = recorded.events("rl.trajectories")
    assert sum(len(record.body["rl.rollout.turns"]) for record in records) == waiting
    assert records[0].attributes["rl.trajectories.started"] == waiting + 5
    assert records[0].attributes["rl.trajectories.left_out"] == 5


def test_rows_of_8192_rollouts_wait_while_those_of_the_next_step_come(recorded, monkeypatch):
    drops.reset()
    posted = []
    # An I/O thread that has not come to it yet.
    monkeypatch.setattr(deferral, "posting", lambda: True)
    monkeypatch.setattr(deferral, "post", lambda _, recording: posted.append(recording) or True)
    for iteration in (1, 2):
        with otel_rl.step(iteration):
            for _ in range(8192):
                trajectory_rows.add(scope, "rollout", trajectory_rows.Ended(OpenTrajectory(), {}, None, 1.0, None))
                trajectories.began(scope, "rollout")
    while posted:
        posted.pop(0)()
    rows = [len(record.body["rl.rollout.seconds"]) for record in recorded.events("rl.trajectories")]
    assert sum(rows) == 2 * 8192
    assert sum(record.attributes["rl.trajectories.started"] for record in recorded.events("rl.trajectories")) == 16384
    assert drops.snapshot().get(("logs", "trajectory_limit"), 0) == 0


def test_rewards_of_one_trajectory_are_bounded_and_all_of_them_are_in_its_sum():
    trajectory = OpenTrajectory()
    for number in range(MAXIMUM_REWARDS + 10):
        trajectory.add_reward(f"r{number}", 1.0)
    trajectory.add_reward("r0", math.nan)
    assert len(trajectory.rewards) == MAXIMUM_REWARDS
    assert trajectory.reward == MAXIMUM_REWARDS + 10


async def test_concurrent_rollouts_keep_their_own_counters(recorded):
    async def run(number):
        with otel_rl.rollout(f"r-{number}"):
            for _ in range(number % 5):
                await asyncio.sleep(0)
                with otel_rl.tool("search"):
                    await asyncio.sleep(0)
            otel_rl.reward("n", number)

    await asyncio.gather(*(run(number) for number in range(100)))
    counted = {}
    for body in bodies(recorded):
        rows = zip(body["rl.rollout.id"], body["rl.rollout.reward"], strict=True)
        calls = body.get("rl.rollout.tool_calls", [None] * 100)
        counted |= {row: (reward, number) for (row, reward), number in zip(rows, calls, strict=True)}
    assert counted == {f"r-{number}": (number, number % 5 or None) for number in range(100)}


async def test_8192_concurrent_rollouts_leave_nothing_behind(recorded):
    # Some of them never end.
    alive: list[weakref.ref] = []
    release = asyncio.Event()

    class Watched(OpenTrajectory):
        __slots__ = ()

        def __init__(self):
            super().__init__()
            alive.append(weakref.ref(self))

    async def run(number):
        operation = otel_rl.rollout(f"r-{number}")
        operation.__enter__()
        await release.wait()
        if number % 8:
            operation.__exit__(None, None, None)

    before, open_trajectory.OpenTrajectory = open_trajectory.OpenTrajectory, Watched
    try:
        tasks = [asyncio.create_task(run(number)) for number in range(8192)]
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(*tasks)
    finally:
        open_trajectory.OpenTrajectory = before
    del tasks
    trajectories.record()
    deferral.drain()
    await asyncio.sleep(0)  # the event loop lets go of the tasks
    gc.collect()

    assert len(alive) == 8192
    assert [one for one in alive if one() is not None] == []
    records = recorded.events("rl.trajectories")
    assert sum(len(record.body["rl.rollout.id"]) for record in records) == 8192 * 7 // 8
    assert sum(record.attributes["rl.trajectories.started"] for record in records) == 8192


async def test_what_a_task_does_after_the_end_of_its_rollout_counts_in_no_trajectory(recorded):
    go_on = asyncio.Event()

    async def outlives():
        with otel_rl.tool("in time"):
            pass
        await go_on.wait()
        answered(prompt_tokens=10, completion_tokens=4)
        with otel_rl.tool("late"):
            pass
        otel_rl.reward("late", 5.0)

    with otel_rl.rollout("r"):
        task = asyncio.create_task(outlives())
        await asyncio.sleep(0)
        otel_rl.reward("exact", 1.0)
        counters = open_trajectory.current()
    go_on.set()
    await task

    assert (counters.tool_calls, counters.model_calls, counters.reward) == (1, 0, 1.0)
    [body] = bodies(recorded)
    assert body["rl.rollout.reward"] == [1.0]
    # Its span says what began it: the trace of the rollout goes on.
    late = recorded.span("execute_tool late")
    assert late.context.trace_id == recorded.span("rl.rollout").context.trace_id


def test_threads_of_a_rollout_add_to_its_counters(recorded):
    def work():
        for _ in range(50):
            with otel_rl.tool("search"):
                pass

    with otel_rl.rollout("r"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert bodies(recorded)[0]["rl.rollout.tool_calls"] == [200]


def test_a_forked_child_keeps_no_row_of_its_parent(recorded):
    with otel_rl.step(1):
        with otel_rl.rollout("r"):
            pass
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            lifecycle.run_after_fork_callbacks()
            os.write(writer, f"{len(trajectories._waiting)} {trajectories._rows} {len(trajectories._began)}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 100) == b"0 0 0"
    assert len(recorded.events("rl.trajectories")) == 1


def test_rollouts_outside_of_steps_are_recorded_together_by_the_io_thread(io_thread, recorded):
    for number in range(5):
        with otel_rl.rollout(f"r-{number}"):
            pass
    io_thread.flush_now()
    [record] = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.id"] == [f"r-{number}" for number in range(5)]
    assert "rl.loop.iteration" not in record.attributes
    assert record.trace_id == 0


def test_a_rollout_that_ends_after_its_step_is_of_its_own_iteration(recorded):
    late = otel_rl.rollout("late")
    of_its_own = contextvars.copy_context()
    with otel_rl.step(1):
        of_its_own.run(late.__enter__)
    with otel_rl.step(2):
        of_its_own.run(late.__exit__, None, None, None)
        with otel_rl.rollout("r"):
            pass
    found = {record.attributes["rl.loop.iteration"]: record for record in recorded.events("rl.trajectories")}
    assert found[1].body["rl.rollout.id"] == ["late"]
    assert found[2].body["rl.rollout.id"] == ["r"]
    assert found[1].trace_id == 0


def rollouts(*names):
    for name in names:
        with otel_rl.rollout(name):
            pass


def test_an_export_in_a_step_does_not_split_the_record_of_its_rollouts(io_thread, recorded):
    rollouts("outside")
    with otel_rl.step(1):
        rollouts("a", "b")
        io_thread.flush_now()
        assert [record.body["rl.rollout.id"] for record in recorded.events("rl.trajectories")] == [["outside"]]
        rollouts("c")
    io_thread.flush_now()
    _, record = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.id"] == ["a", "b", "c"]
    assert record.attributes["rl.loop.iteration"] == 1


def test_a_step_that_ends_leaves_the_rows_of_another_open_one_alone(recorded):
    with otel_rl.step(1, loop="long"):
        rollouts("a")
        with otel_rl.step(1, loop="short"):
            rollouts("s")
        rollouts("b")
    found = [record.body["rl.rollout.id"] for record in recorded.events("rl.trajectories")]
    assert found == [["s"], ["a", "b"]]


def test_rows_of_an_open_step_are_recorded_before_they_crowd_out_others(io_thread, recorded):
    half = trajectories.MAXIMUM_ROWS // 2
    with otel_rl.step(1):
        trajectories.add_batch(scope, "trainer", 1, half, lambda: Columns({"rl.rollout.turns": [1] * half}, {}))
        io_thread.flush_now()
        assert recorded.events("rl.trajectories") == []
        given = io_thread._gave_way
        rollouts("one too many")
        # What keeps the GIL may have kept the thread from them.
        assert io_thread._gave_way > given
        io_thread.flush_now()
        assert sum(len(one.body["rl.rollout.turns"]) for one in recorded.events("rl.trajectories")[:-1]) == half
        assert trajectories._rows == 0


def test_a_row_that_came_while_its_step_ended_is_not_forgotten(io_thread, recorded):
    with otel_rl.step(1):
        step = steps.where().step
    io_thread.flush_now()
    # Its thread has asked for the step before, and goes on after its end has been recorded.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "where", lambda: steps.StepPosition(step, None))
        trajectories.add_batch(scope, "trainer", 1, 1, lambda: Columns({"rl.rollout.turns": [1]}, {}))
    io_thread.flush_now()
    assert len(recorded.events("rl.trajectories")) == 1


def test_rows_that_were_put_back_after_the_end_of_their_step_are_not_forgotten(recorded, monkeypatch):
    put_back = trajectories._record_waiting

    def meanwhile_the_step_ends(*, everything):
        held = put_back(everything=everything)
        step.is_open = False
        return held

    with otel_rl.step(1):
        step = steps.where().step
        rollouts("r")
        monkeypatch.setattr(trajectories, "_record_waiting", meanwhile_the_step_ends)
        trajectories.record()
        assert len(recorded.events("rl.trajectories")) == 1


def test_without_an_io_thread_rows_that_are_held_back_hurry_no_others(recorded, monkeypatch):
    records = []
    record = trajectories.record
    monkeypatch.setattr(trajectories, "record", lambda: records.append(1) or record())
    with otel_rl.step(1):
        trajectories.add_batch(scope, "trainer", 1, 600, lambda: Columns({"rl.rollout.turns": [1] * 600}, {}))
        outside = [contextvars.Context().run(rollouts_outside, number) for number in range(20)]
    assert len(outside) == 20
    assert len(records) <= 2


def rollouts_outside(number):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "where", lambda: steps.StepPosition(None, None))
        rollouts(f"outside-{number}")


def test_after_a_post_that_was_dropped_others_are_posted(io_thread, recorded, monkeypatch):
    monkeypatch.setattr(deferral, "MAXIMUM", 0)
    with deferral.inside_sdk():
        trajectories._record_soon()
    assert drops.snapshot()["logs", "deferral_full"] >= 1
    monkeypatch.undo()
    rollouts("r")
    io_thread.flush_now()
    assert len(recorded.events("rl.trajectories")) == 1


def test_the_record_holds_no_baggage_of_the_rollout_that_happens_to_be_current(recorded):
    trajectories.add_batch(scope, "trainer", None, 1, lambda: Columns({"rl.rollout.turns": [1]}, {}))
    with otel_rl.rollout("current", sample_id="s"):
        trajectories.record()
    [record] = recorded.events("rl.trajectories")
    assert record.attributes.keys() == {"rl.trajectories.source", "rl.trajectories.started"}


def test_a_rollout_that_the_program_discards_says_why(recorded):
    with otel_rl.rollout("r") as rollout:
        rollout.discard("too_long")
    [body] = bodies(recorded)
    assert body["rl.rollout.status"] == ["discarded"]
    assert body["rl.rollout.discard_reason"] == ["too_long"]


def test_trajectories_that_never_end_are_in_the_last_record_of_the_process(recorded):
    contextvars.copy_context().run(otel_rl.rollout("stuck").__enter__)
    trajectories.record()
    assert recorded.events("rl.trajectories") == []
    trajectories._record_all()
    [record] = recorded.events("rl.trajectories")
    assert record.attributes["rl.trajectories.started"] == 1
    assert dict(record.body) == {}


def counted(recorded, *names):
    """Sums of the counters ``rl.trajectory.*`` by the values of their labels but the source."""
    trajectories.record()
    points = recorded.metrics()
    found = {}
    for name in names:
        for point in points.get(f"rl.trajectory.{name}", ()):
            labels = {key: value for key, value in point.attributes.items() if key != "rl.trajectories.source"}
            found[(name, *sorted(labels.values()))] = point.value
    return found


def test_turns_of_trajectories_are_a_histogram(recorded):
    with otel_rl.step(1):
        for answers in (1, 3):
            with otel_rl.rollout("r"):
                for _ in range(answers):
                    answered(prompt_tokens=1, completion_tokens=1)
    [turns] = recorded.metrics()["rl.trajectory.turns"]
    assert (turns.count, turns.sum, turns.max) == (2, 4, 3)


def test_outcomes_are_counted_with_the_reason_to_discard_and_those_without_end_too(recorded):
    with otel_rl.step(1):
        with otel_rl.rollout("kept"):
            pass
        with otel_rl.rollout("discarded") as rollout:
            rollout.discard("too_long")
        with otel_rl.rollout("failed") as rollout:
            otel_rl.reward("exact", 0.0)
            rollout.fail("timeout")
    assert counted(recorded, "started", "ended", "suspect", "trained") == {
        ("started",): 3,
        ("ended", "finished"): 1,
        ("ended", "discarded", "too_long"): 1,
        ("ended", "failed"): 1,
        ("suspect",): 1,
    }
    trajectories.began(scope, "rollout", 2)
    trajectories._record_all()
    assert counted(recorded, "started") == {("started",): 2}


def test_counts_survive_columns_of_any_kind_and_the_record_is_whole(recorded):
    values = {
        "rl.rollout.status": ["finished", Hostile(), [1.0], None],
        "rl.rollout.discard_reason": [None, 7, [2.0]],
        "rl.rollout.trained": [True, "yes", 1, None],
        "rl.rollout.turns": [2, 2.5, "x", True],
    }
    trajectories.add_batch(scope, "trainer", 1, 4, lambda: Columns(values, {}))
    found = counted(recorded, "started", "ended", "trained")
    assert found == {("started",): 4, ("ended", "finished"): 1, ("ended",): 3, ("trained",): 1}
    assert len(recorded.events("rl.trajectories")) == 1
