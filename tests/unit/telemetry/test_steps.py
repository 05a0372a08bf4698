"""Step traces: ranks meet without talking, samplers are respected, the run span is linked."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from otel_rl.process import process_identity
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope, drops, ids
from otel_rl.telemetry.deferral import Moment
from otel_rl.training import steps
from otel_rl.training.phases import Phase
from otel_rl.training.trainer_loop import SPANS_PER_STEP, TrainerLoop

_scope = Scope("test")


@pytest.fixture
def identity(monkeypatch):
    def become(**changes):
        # Another rank is another process, which has not begun a step yet.
        monkeypatch.setattr(steps, "_programs", [])
        monkeypatch.setattr(steps, "_numbers", count())
        run = process_identity.ProcessIdentity(id="run-1", **changes)
        key = f"run-1/{run.attempt}"
        monkeypatch.setattr(process_identity, "_current", replace(run, steps_key=changes.get("steps_key", key)))

    become()
    return become


def _record_step(iteration):
    steps.begin(iteration, _scope)
    with Phase(spans.RL_SAMPLE, _scope):
        pass
    steps.finish()


def test_all_ranks_meet_in_one_trace_whose_root_only_rank_zero_emits(recorded, identity):
    for rank in (1, 0):
        identity(rank=rank, world_size=2)
        _record_step(5)
    root = recorded.span("rl.loop")
    rank_spans = [span for span in recorded.spans if span.name == "rl.rank.step"]
    assert root.context.trace_id == ids.derive("run-1", "0.0.0", 5).trace_id
    assert {span.attributes["rl.rank"] for span in rank_spans} == {0, 1}
    for span in rank_spans:
        assert span.context.trace_id == root.context.trace_id
        assert span.parent.span_id == root.context.span_id


def test_another_attempt_or_iteration_is_another_trace(recorded, identity):
    identity(rank=0)
    _record_step(1)
    _record_step(2)
    identity(rank=0, attempt="0.1.0")
    _record_step(1)
    assert len({span.context.trace_id for span in recorded.spans if span.name == "rl.loop"}) == 3


def test_a_second_training_has_step_traces_of_its_own_in_which_the_ranks_meet(recorded, identity):
    for rank in (0, 1):
        identity(rank=rank, world_size=2)
        for _ in range(2):
            _record_step(1)
            _record_step(2)
    roots = [span.context for span in recorded.spans if span.name == "rl.loop"]
    assert len({root.trace_id for root in roots}) == len({root.span_id for root in roots}) == 4
    by_rank = {0: [], 1: []}
    for span in recorded.spans:
        if span.name == "rl.rank.step":
            by_rank[span.attributes["rl.rank"]].append((span.context.trace_id, span.parent.span_id))
    assert by_rank[0] == by_rank[1] == [(root.trace_id, root.span_id) for root in roots]


def test_the_context_of_the_program_is_there_inside_a_step(recorded, identity):
    identity(rank=0)
    token = context.attach(context.set_value("mine", 1, baggage.set_baggage("tenant", "a")))
    try:
        steps.begin(1, _scope)
        assert (context.get_value("mine"), baggage.get_baggage("tenant")) == (1, "a")
        steps.finish()
    finally:
        context.detach(token)
    assert recorded.span("rl.loop").parent is None


def test_every_rank_obeys_a_ratio_sampler_for_the_root_it_does_not_emit(recorded, identity, monkeypatch):
    sampler = TraceIdRatioBased(0.3)
    monkeypatch.setattr(recorded.tracer_provider, "sampler", sampler)
    kept = {}
    for rank in (0, 1):
        identity(rank=rank, world_size=2)
        scope = Scope("sampled")
        recorded.clear()
        for iteration in range(60):
            steps.begin(iteration, scope)
            steps.finish()
        kept[rank] = {span.attributes["rl.loop.iteration"] for span in recorded.spans if span.name == "rl.rank.step"}
    assert kept[0] == kept[1]
    assert 0 < len(kept[0]) < 60


def test_a_step_stays_open_until_the_next_begins(recorded, identity):
    identity(rank=0)
    steps.begin(1, _scope)
    assert not recorded.spans
    steps.begin(2, _scope)
    assert recorded.span("rl.loop").attributes["rl.loop.iteration"] == 1
    steps.finish()
    assert not trace.get_current_span().get_span_context().is_valid


def test_durations_lead_to_the_step_by_exemplar(recorded, identity):
    identity(rank=0)
    _record_step(3)
    points = recorded.metrics()
    expected = recorded.span("rl.loop").context.trace_id
    assert [exemplar.trace_id for exemplar in points["rl.loop.duration"][0].exemplars] == [expected]
    assert [exemplar.trace_id for exemplar in points["rl.sample.duration"][0].exemplars] == [expected]


def test_contributors_add_to_the_rank_span_before_it_ends(recorded, identity):
    identity(rank=0)

    def contribute(step):
        step.rank_span.set_attribute("torch.distributed.calls", 3)

    steps.contributors.add(contribute)
    try:
        _record_step(1)
    finally:
        steps.contributors.remove(contribute)
    assert recorded.span("rl.rank.step").attributes["torch.distributed.calls"] == 3


def _emitted(recorded):
    return [span.attributes["rl.loop.iteration"] for span in recorded.spans if span.name == "rl.rank.step"]


def test_in_a_large_job_the_other_ranks_take_turns(recorded, identity):
    for rank, expected in ((0, list(range(1, 21))), (77, [3, 13]), (78, [2, 12])):
        identity(rank=rank, world_size=1024)
        recorded.clear()
        for iteration in range(1, 21):
            _record_step(iteration)
        assert _emitted(recorded) == expected
        assert recorded.metrics()["rl.loop.duration"][0].count == 20


def test_what_a_rank_leaves_out_is_counted(recorded, identity):
    identity(rank=77, world_size=1024)
    drops.reset()
    _record_step(1)
    assert recorded.spans == []
    assert drops.snapshot() == {("traces", "rank_turn"): 2}
    drops.reset()


def test_a_rank_whose_turn_it_is_not_keeps_the_programs_spans_and_what_fails(recorded, identity):
    identity(rank=77, world_size=1024)
    carrier = {}
    steps.begin(1, _scope)
    with trace.get_tracer("program").start_as_current_span("own"):
        propagate.inject(carrier)
    with pytest.raises(RuntimeError), Phase(spans.RL_REWARD, _scope):
        raise RuntimeError
    steps.where().loop.finish(RuntimeError())
    names = {span.name: span for span in recorded.spans}
    assert set(names) == {"own", "rl.reward", "rl.rank.step"}
    assert carrier["traceparent"].endswith(("-01", "-03"))
    root = ids.derive("run-1", "0.0.0", 1)
    assert {span.context.trace_id for span in names.values()} == {root.trace_id}
    assert {span.parent.span_id for span in names.values()} == {root.span_id}
    for failed in ("rl.reward", "rl.rank.step"):
        assert names[failed].attributes["error.type"] == "RuntimeError"
    assert names["rl.rank.step"].start_time <= names["own"].start_time


def test_a_worker_without_a_rank_has_a_step_trace_of_its_own_linked_to_the_run(recorded, identity):
    for _ in range(2):
        identity(steps_key=None, leads=False)
        _record_step(7)
    workers = [span for span in recorded.spans if span.name == "rl.rank.step"]
    assert not [span for span in recorded.spans if span.name == "rl.loop"]
    assert len({span.context.trace_id for span in workers}) == len({span.context.span_id for span in workers}) == 2
    for span in workers:
        assert span.parent is None
        assert span.links[0].context.span_id == ids.derive("run-1", "0.0.0", "run").span_id


def test_a_span_that_is_open_in_one_rank_does_not_change_what_its_sampler_decides(recorded, identity, monkeypatch):
    monkeypatch.setattr(recorded.tracer_provider, "sampler", ParentBased(TraceIdRatioBased(0.3)))
    kept = []
    for rank, flags in ((0, None), (1, TraceFlags.SAMPLED), (2, TraceFlags.DEFAULT)):
        identity(rank=rank, world_size=3)
        scope, token = Scope("sampled"), None
        recorded.clear()
        if flags is not None:
            outer = SpanContext(1234, 5678, is_remote=False, trace_flags=TraceFlags(flags))
            token = context.attach(trace.set_span_in_context(NonRecordingSpan(outer)))
        for iteration in range(60):
            steps.begin(iteration, scope)
            steps.finish()
        if token is not None:
            context.detach(token)
        kept.append(_emitted(recorded))
    assert kept[0] == kept[1] == kept[2]
    assert 0 < len(kept[0]) < 60


def test_the_root_links_to_the_run_span(recorded, identity):
    identity(rank=0)
    _record_step(1)
    (link,) = recorded.span("rl.loop").links
    assert link.context.span_id == ids.derive("run-1", "0.0.0", "run").span_id


def test_a_step_of_a_worker_without_a_rank_begins_when_it_began(recorded, identity):
    identity(steps_key=None, leads=False)
    program_loop = steps.Loop()
    program_loop.begin(7, _scope, Moment(1.0, 1_000_000_000))
    program_loop.finish(at=Moment(3.0, 3_000_000_000))
    span = recorded.span("rl.rank.step")
    assert (span.start_time, span.end_time) == (1_000_000_000, 3_000_000_000)


def test_durations_of_parts_are_recorded_together_when_anybody_ends_the_step(recorded):
    def forward_passes():
        points = recorded.metrics().get("rl.phase.duration", ())
        return [(point.count, len(point.exemplars)) for point in points if point.attributes["rl.phase"] == "forward"]

    loop = TrainerLoop()
    loop.begin_step(7, _scope)
    for _ in range(SPANS_PER_STEP + 4):
        with loop.phase(spans.RL_FORWARD, _scope):
            pass
    assert forward_passes() == []
    steps.finish()
    assert forward_passes() == [(SPANS_PER_STEP + 4, 1)]
