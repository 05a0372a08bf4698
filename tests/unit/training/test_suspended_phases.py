"""Exclusive phases: what interrupts what, how its spans and durations look."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope, deferral, lifecycle, progress
from otel_rl.training import step_sampling, steps
from otel_rl.training.phases import Phase
from otel_rl.training.trainer_loop import PHASE_SPANS_PER_STEP, TrainerLoop

_scope = Scope("test")
SECOND = 1_000_000_000


class ExpectedError(Exception):
    """Raised by the tests."""


def stretches(recordings):
    """Name, start and end of each phase span, the outer one first."""
    depth = {None: 0}
    for span in reversed(recordings.spans):
        depth[span.context.span_id] = depth.get(span.parent and span.parent.span_id, 0) + 1
    found = [span for span in recordings.spans if "rl.phase" in span.attributes]
    found.sort(key=lambda span: (span.start_time, depth[span.context.span_id]))
    return [(span.name, span.start_time // SECOND - 1000, span.end_time // SECOND - 1000) for span in found]


def durations(recordings):
    points = {
        name: point.sum
        for name, [point, *_] in recordings.metrics().items()
        if name.endswith(".duration") and name != "rl.loop.duration"
    }
    return {name.removeprefix("rl.").removesuffix(".duration"): value for name, value in points.items()}


def test_phases_that_a_signal_handler_has_taken_their_blocks_from_end_with_their_step(recordings, clock, monkeypatch):
    monkeypatch.setattr(progress, "_open_phases", {})
    with otel_rl.step(1):
        with otel_rl.phase("train"):
            clock.passes(1)
        for name in ("sample", "checkpoint"):
            # As far as the handler lets it.
            otel_rl.phase(name).__enter__()
            clock.passes(2)
    assert progress.open_phases() == ()
    with otel_rl.step(2), otel_rl.phase("reward"):
        clock.passes(1)
    # The checkpoint has suspended the sampling, which goes on when that ends, and ends there too.
    assert stretches(recordings) == [
        ("rl.train", 0, 1),
        ("rl.sample", 1, 3),
        ("rl.checkpoint", 3, 5),
        ("rl.sample", 5, 5),
        ("rl.reward", 5, 6),
    ]
    assert progress.open_phases() == ()


def test_a_phase_around_a_step_does_not_end_with_it(recordings, clock):
    with otel_rl.phase("evaluate"):
        with otel_rl.step(1):
            clock.passes(1)
        clock.passes(2)
    assert stretches(recordings) == [("rl.evaluate", 0, 3)]


def test_one_exclusive_phase_inside_another_suspends_it(recordings, clock):
    with otel_rl.step(1), otel_rl.phase("sample"):
        clock.passes(1)
        with otel_rl.phase("sync"):
            clock.passes(5)
        clock.passes(2)

    assert stretches(recordings) == [("rl.sample", 0, 1), ("rl.sync", 1, 6), ("rl.sample", 6, 8)]
    assert durations(recordings) == {"sample": 3.0, "sync": 5.0}
    step = recordings.span("rl.rank.step")
    first, sync, last = sorted(
        (span for span in recordings.spans if "rl.phase" in span.attributes), key=lambda span: span.start_time
    )
    for span in (first, sync, last):
        assert span.parent.span_id == step.context.span_id
    assert first.attributes["rl.suspended"] is True
    assert last.attributes["rl.active_duration"] == 3.0
    assert "rl.suspended" not in last.attributes
    assert "rl.active_duration" not in sync.attributes


def test_parts_of_a_suspended_phase_are_suspended_with_it(recordings, clock):
    with otel_rl.step(1), otel_rl.phase("sample"), otel_rl.phase("generate"):
        clock.passes(1)
        with otel_rl.phase("sync"), otel_rl.phase("weight_sync"):
            clock.passes(5)
        clock.passes(2)

    assert stretches(recordings) == [
        ("rl.sample", 0, 1),
        ("rl.generate", 0, 1),
        ("rl.sync", 1, 6),
        ("rl.weight_sync", 1, 6),
        ("rl.sample", 6, 8),
        ("rl.generate", 6, 8),
    ]
    names = {span.context.span_id: span.name for span in recordings.spans}
    parents = {span.name: names[span.parent.span_id] for span in recordings.spans if "rl.phase" in span.attributes}
    by_id = {span.context.span_id: span for span in recordings.spans}
    for span in recordings.spans:
        if span.name == "rl.generate":
            assert by_id[span.parent.span_id].start_time == span.start_time
    assert parents == {
        "rl.sample": "rl.rank.step",
        "rl.generate": "rl.sample",
        "rl.sync": "rl.rank.step",
        "rl.weight_sync": "rl.sync",
    }


def test_interruptions_nest(recordings, clock):
    with otel_rl.step(1), otel_rl.phase("train"):
        clock.passes(1)
        with otel_rl.phase("sample"):
            clock.passes(1)
            with otel_rl.phase("reward"):
                clock.passes(1)
            clock.passes(1)
        clock.passes(1)

    assert stretches(recordings) == [
        ("rl.train", 0, 1),
        ("rl.sample", 1, 2),
        ("rl.reward", 2, 3),
        ("rl.sample", 3, 4),
        ("rl.train", 4, 5),
    ]
    assert durations(recordings) == {"train": 2.0, "sample": 2.0, "reward": 1.0}


def test_what_an_evaluation_samples_is_inside_it(recordings, clock):
    with otel_rl.step(1), otel_rl.phase("train"):
        clock.passes(1)
        with otel_rl.phase("evaluate"):
            clock.passes(1)
            with otel_rl.phase("sample"):
                clock.passes(1)
        clock.passes(1)

    assert stretches(recordings) == [
        ("rl.train", 0, 1),
        ("rl.evaluate", 1, 3),
        ("rl.sample", 2, 3),
        ("rl.train", 3, 4),
    ]


def test_a_step_has_one_duration_per_phase(recordings, clock):
    with otel_rl.step(1):
        for _ in range(4):
            with otel_rl.phase("sample"):
                clock.passes(1)
    found = recordings.metrics()["rl.sample.duration"][0]

    assert (found.count, found.sum) == (1, 4.0)


def test_without_a_step_every_phase_has_its_duration(recordings, clock):
    for _ in range(2):
        with otel_rl.phase("sample"):
            clock.passes(1)
            with otel_rl.phase("sync"):
                clock.passes(2)
    found = recordings.metrics()["rl.sample.duration"][0]

    assert (found.count, found.sum) == (2, 2.0)


def test_a_phase_in_a_rollout_suspends_nothing_of_the_step(recordings, clock):
    with otel_rl.step(1), otel_rl.phase("sample"):
        clock.passes(1)
        with otel_rl.rollout(), otel_rl.phase("reward"):
            clock.passes(2)
        clock.passes(1)

    assert stretches(recordings) == [("rl.sample", 0, 4), ("rl.reward", 1, 3)]
    assert recordings.span("rl.reward").parent.span_id == recordings.span("rl.rollout").context.span_id
    assert durations(recordings)["sample"] == 4.0


def test_a_task_that_runs_beside_a_phase_does_not_suspend_it(recordings, clock):
    async def score():
        with otel_rl.phase("reward"):
            clock.passes(1)

    async def program():
        with otel_rl.step(1), otel_rl.phase("sample"):
            await asyncio.gather(score(), score())
            clock.passes(1)

    asyncio.run(program())

    assert [one for one in stretches(recordings) if one[0] == "rl.sample"] == [("rl.sample", 0, 3)]
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_thread_that_runs_beside_a_phase_does_not_suspend_it(recordings, clock):
    def score():
        with otel_rl.phase("reward"):
            clock.passes(1)

    with otel_rl.step(1), otel_rl.phase("sample"):
        thread = threading.Thread(target=score)
        thread.start()
        thread.join(60)

    assert ("rl.sample", 0, 1) in stretches(recordings)


def test_what_the_program_made_current_stays_current_after_an_interruption(recordings, clock):
    tracer = trace.get_tracer("program")
    with otel_rl.step(1), otel_rl.phase("sample"), tracer.start_as_current_span("own") as own:
        with otel_rl.phase("sync"):
            clock.passes(1)
        assert trace.get_current_span() is own
        with otel_rl.phase("reward"):
            clock.passes(1)
        assert trace.get_current_span() is own
    assert not trace.get_current_span().get_span_context().is_valid
    assert durations(recordings) == {"sample": 0.0, "sync": 1.0, "reward": 1.0}


def test_an_error_marks_the_last_stretch(recordings, clock):
    def program():
        with otel_rl.step(1), otel_rl.phase("sample"):
            clock.passes(1)
            with otel_rl.phase("sync"):
                clock.passes(1)
            clock.passes(1)
            raise LookupError

    with pytest.raises(LookupError):
        program()

    first, last = sorted(
        (span for span in recordings.spans if span.name == "rl.sample"), key=lambda one: one.start_time
    )
    assert "error.type" not in first.attributes
    assert last.attributes["error.type"] == "LookupError"
    assert "error.type" not in recordings.span("rl.sync").attributes


def test_a_phase_that_is_left_before_the_one_inside_it_does_not_come_back(recordings, clock):
    steps.begin(1, _scope)
    outer = Phase(spans.RL_SAMPLE, _scope).start()
    inner = Phase(spans.RL_SYNC, _scope).start()
    clock.passes(1)
    outer.end()
    inner.end()
    steps.finish()

    assert not trace.get_current_span().get_span_context().is_valid
    assert [name for name, *_ in stretches(recordings)] == ["rl.sample", "rl.sync"]


def test_a_trainer_that_changes_phases_often_emits_few_spans_and_all_durations(recordings, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for _ in range(100):
        with loop.phase(spans.RL_SAMPLE, _scope):
            clock.passes(1)
            with loop.phase(spans.RL_SYNC, _scope):
                clock.passes(2)
        with loop.phase(spans.RL_FORWARD, _scope):
            clock.passes(3)
    loop.finish_step()

    assert len(recordings.spans) <= 2 + 4 * PHASE_SPANS_PER_STEP
    assert durations(recordings) == {"sample": 100.0, "sync": 200.0, "train": 300.0, "phase": 300.0}


def test_a_weight_sync_inside_the_loss_suspends_training(recordings, clock):
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    with loop.phase(spans.RL_FORWARD, _scope):
        clock.passes(1)
        with loop.phase(spans.RL_SYNC, _scope):
            clock.passes(2)
        clock.passes(1)
    loop.finish_step()

    assert durations(recordings) == {"train": 2.0, "sync": 2.0, "phase": 2.0}


def test_a_thinned_rank_suspends_without_spans(recordings, clock, monkeypatch):
    monkeypatch.setattr(step_sampling, "has_its_turn", lambda *_: False)
    with otel_rl.step(1), otel_rl.phase("sample"):
        clock.passes(1)
        with otel_rl.phase("sync"):
            clock.passes(2)
        clock.passes(1)

    assert not [span for span in recordings.spans if "rl.phase" in span.attributes]
    assert durations(recordings) == {"sample": 2.0, "sync": 2.0}


def test_a_forked_child_neither_suspends_nor_ends_the_phases_of_its_parent(recordings):
    otel_rl.step(1).__enter__()
    with Phase(spans.RL_TRAIN, _scope):
        child = os.fork()
        if child == 0:
            inner = ["unknown"]
            try:
                lifecycle.run_after_fork_callbacks()
                deferral.release_child()
                with Phase(spans.RL_SAMPLE, _scope):
                    pass
                inner = [span.name for span in recordings.spans]
            finally:
                os._exit(0 if inner == ["rl.sample"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [span.name for span in recordings.spans] == ["rl.train"]


def test_a_forked_child_that_leaves_a_phase_of_its_parent_records_nothing(recordings):
    phase = Phase(spans.RL_TRAIN, _scope).start()
    child = os.fork()
    if child == 0:
        names = ["unknown"]
        try:
            lifecycle.run_after_fork_callbacks()
            deferral.release_child()
            phase.end()
            names = [span.name for span in recordings.spans]
        finally:
            os._exit(0 if names == [] and not trace.get_current_span().get_span_context().is_valid else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    phase.end()
    assert [span.name for span in recordings.spans] == ["rl.train"]
