"""What was counted reaches the span of the step and the observable counters."""

from __future__ import annotations

import time
import types

import pytest

from otel_rl.collectives import first_use
from otel_rl.collectives.recorder import CollectiveRecorder
from otel_rl.collectives.reports import COST_MARKED_NS, COST_NS, CollectiveReporter
from otel_rl.semconv import attributes, events, metrics, spans
from otel_rl.semconv.attributes import TorchDistributedSourceValues as Source
from otel_rl.telemetry import Scope, deferral
from otel_rl.training import steps
from otel_rl.training.guessed_loop import GuessedLoop


class Tensor:
    nbytes = 100


class Work:
    def raw_wait(self):
        time.sleep(2e-3)


class ProcessGroup:
    group_desc, group_name = "", "0"

    def size(self):
        return 2


@pytest.fixture
def group(recorded, request, monkeypatch):
    """A process group whose method is recorded and reported."""
    recorder = CollectiveRecorder(slowest=2)
    # Instruments cannot be taken back: each test has its own.
    monkeypatch.setattr(ProcessGroup, "group_desc", request.node.name)
    ProcessGroup.allreduce = recorder.recording("all_reduce", 0, lambda self, *args, **kwargs: Work())
    Work.wait = recorder.waiting(Work.raw_wait)
    reporter = ProcessGroup.reporter = CollectiveReporter(recorder, Scope(request.node.name))
    reporter.start()
    yield ProcessGroup()
    reporter.stop()


@pytest.fixture
def reporter(group):
    """The one of the process group."""
    return group.reporter


def ours(points):
    key = attributes.TORCH_DISTRIBUTED_GROUP_NAME
    return [point for point in points if point.attributes[key] == ProcessGroup.group_desc]


def test_a_step_gets_what_happened_in_it_and_nothing_from_before(recorded, group):
    scope = Scope("test")
    group.allreduce([Tensor()], None).wait()
    steps.begin(1, scope)
    for _ in range(3):
        group.allreduce([Tensor()], None).wait()
    steps.begin(2, scope)
    steps.finish()

    first, second = (span for span in recorded.spans if span.name == spans.RL_RANK_STEP.type)

    assert first.attributes[attributes.TORCH_DISTRIBUTED_CALLS] == 3
    assert first.attributes[attributes.TORCH_DISTRIBUTED_BYTES] == 300
    assert first.attributes[attributes.TORCH_DISTRIBUTED_WAIT_TIME] >= 6e-3
    assert 0 < first.attributes[attributes.TORCH_DISTRIBUTED_HOST_TIME] < 6e-3
    assert second.attributes[attributes.TORCH_DISTRIBUTED_CALLS] == 0
    assert second.events == ()


def test_a_step_that_begins_beside_another_takes_none_of_its_collectives_away(recorded, group):
    scope, outer, inner = Scope("test"), steps.Loop(), steps.Loop()
    outer.begin(1, scope)
    group.allreduce([Tensor()], None).wait()
    inner.begin(2, scope)
    group.allreduce([Tensor()], None).wait()
    inner.finish()
    outer.finish()

    calls = {
        span.attributes[attributes.RL_LOOP_ITERATION]: span.attributes[attributes.TORCH_DISTRIBUTED_CALLS]
        for span in recorded.spans
        if span.name == spans.RL_RANK_STEP.type
    }
    assert calls == {1: 2, 2: 1}


def test_the_slowest_collectives_of_a_step_are_events_with_the_time_they_began(recorded, group):
    steps.begin(1, Scope("test"))
    for _ in range(4):
        group.allreduce([Tensor()], None).wait()
    steps.finish()

    [span] = [span for span in recorded.spans if span.name == spans.RL_RANK_STEP.type]

    assert [event.name for event in span.events] == [events.TORCH_DISTRIBUTED_COLLECTIVE.name] * 2
    for event in span.events:
        assert set(event.attributes) == set(events.TORCH_DISTRIBUTED_COLLECTIVE.attributes)
        assert event.attributes[attributes.TORCH_DISTRIBUTED_OPERATION] == "all_reduce"
        assert event.attributes[attributes.TORCH_DISTRIBUTED_MESSAGE_SIZE] == 100
        assert span.start_time <= event.timestamp <= span.end_time
        duration = event.attributes[attributes.TORCH_DISTRIBUTED_DURATION]
        assert event.timestamp + duration * 1e9 <= span.end_time + 100_000


def test_counting_is_sampled_and_told_once_for_each_collective(recorded, group, reporter):
    for _ in range(100):
        group.allreduce([Tensor()], None)
    mean = reporter.recorder.own_ns[0]
    told = reporter.own_nanoseconds()

    assert mean > 0
    assert told == pytest.approx(100 * 2 * mean)
    assert reporter.own_nanoseconds() == 0


def test_python_s_collectives_of_an_operation_with_kernels_cost_more(recorded, group, reporter):
    for _ in range(100):
        group.allreduce([Tensor()], None)
    mean = reporter.recorder.own_ns[0]
    reporter.mode = types.SimpleNamespace(covers=lambda operation: operation == "all_reduce")

    assert reporter.own_nanoseconds() == pytest.approx(100 * (2 * mean + COST_MARKED_NS))


def test_what_cpp_code_issues_costs_what_was_measured_once(recorded, group, reporter):
    count = reporter.recorder.counting("all_gather", Source.FUNCTIONAL)
    for _ in range(3):
        count(group, Tensor(), 0, 1)

    assert reporter.own_nanoseconds() == 3 * COST_NS[Source.FUNCTIONAL]


def test_a_slow_collective_belongs_to_every_step_that_was_open(recorded, group, monkeypatch):
    scope, outer, inner = Scope("test"), steps.Loop(), steps.Loop()
    outer.begin(1, scope)
    group.allreduce([Tensor()], None).wait()
    inner.begin(2, scope)
    monkeypatch.setattr(Tensor, "nbytes", 200)
    group.allreduce([Tensor()], None).wait()
    inner.finish()
    outer.finish()

    sizes = {
        span.attributes[attributes.RL_LOOP_ITERATION]: {
            event.attributes[attributes.TORCH_DISTRIBUTED_MESSAGE_SIZE] for event in span.events
        }
        for span in recorded.spans
        if span.name == spans.RL_RANK_STEP.type
    }
    assert sizes == {1: {100, 200}, 2: {200}}


def test_counters_carry_operation_group_size_and_source(recorded, group):
    group.allreduce([Tensor()], None).wait()
    group.allreduce([Tensor()], None)

    found = recorded.metrics()

    [calls] = ours(found[metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS.name])
    assert dict(calls.attributes) == {
        attributes.TORCH_DISTRIBUTED_OPERATION: "all_reduce",
        attributes.TORCH_DISTRIBUTED_GROUP_NAME: ProcessGroup.group_desc,
        attributes.TORCH_DISTRIBUTED_GROUP_SIZE: 2,
        attributes.TORCH_DISTRIBUTED_SOURCE: "python",
    }
    assert calls.value == 2
    assert ours(found[metrics.TORCH_DISTRIBUTED_COLLECTIVE_IO.name])[0].value == 200
    assert ours(found[metrics.TORCH_DISTRIBUTED_COLLECTIVE_WAIT_TIME.name])[0].value >= 2e-3
    assert ours(found[metrics.TORCH_DISTRIBUTED_COLLECTIVE_HOST_TIME.name])[0].value > 0


def test_a_guessed_step_has_the_collectives_since_the_one_before_though_it_is_opened_later(recorded, group):
    loop, scope = GuessedLoop(), Scope("test")
    group.allreduce([Tensor()], None).wait()
    loop.begin(1, scope, deferral.now())
    ended = deferral.now()
    loop.finish(at=ended)
    for _ in range(3):
        group.allreduce([Tensor()], None).wait()
    loop.begin(2, scope, ended)
    group.allreduce([Tensor()], None).wait()
    loop.finish(at=deferral.now())

    first, second = (span for span in recorded.spans if span.name == spans.RL_RANK_STEP.type)
    assert first.attributes[attributes.TORCH_DISTRIBUTED_CALLS] == 0
    assert second.attributes[attributes.TORCH_DISTRIBUTED_CALLS] == 4
    assert len(second.events) == 2


def test_what_an_evaluation_before_a_guessed_step_has_communicated_is_no_part_of_it(recorded, group):
    loop, scope = GuessedLoop(), Scope("test")
    group.allreduce([Tensor()], None).wait()
    loop.begin(1, scope, deferral.now())
    loop.finish(at=deferral.now())
    group.allreduce([Tensor()], None).wait()
    loop.begin(2, scope, deferral.now())
    loop.finish(at=deferral.now())

    second = [span for span in recorded.spans if span.name == spans.RL_RANK_STEP.type][-1]
    assert second.attributes[attributes.TORCH_DISTRIBUTED_CALLS] == 0


def test_a_guessed_step_of_a_process_without_a_group_says_nothing_of_collectives(recorded, reporter, monkeypatch):
    monkeypatch.setattr(first_use, "is_counted", False)
    loop = GuessedLoop()
    loop.begin(1, Scope("test"))
    loop.finish()

    assert attributes.TORCH_DISTRIBUTED_CALLS not in recorded.span(spans.RL_RANK_STEP.type).attributes
