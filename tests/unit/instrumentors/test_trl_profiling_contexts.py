"""Profiling contexts of TRL: which begin a phase, and what becomes of those that the program never leaves."""

from __future__ import annotations

import pytest
from opentelemetry import baggage
from opentelemetry.context import get_current

from otel_rl.instrumentors.trl import profiling
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope, deferral
from otel_rl.training import steps
from otel_rl.training.phases import innermost
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")


class Context:
    """As TRL has it."""

    def __init__(self, name):
        self.name = name
        self.left = 0

    def __enter__(self):
        return self

    def __exit__(self, *given):
        self.left += 1
        return False


Context.__enter__ = profiling.entering(Context.__enter__)
Context.__exit__ = profiling.leaving(Context.__exit__)


@pytest.fixture
def loop(recorded):
    loop = TrainerLoop().enter()
    loop.begin_step(1, _scope)
    yield loop
    loop.leave()
    profiling._open.clear()


def names(recorded):
    deferral.drain_all()
    return [span.name for span in recorded.spans]


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("GRPOTrainer.transformers.generate", "rl.generate"),
        ("GRPOTrainer.sync_weights", "rl.sync"),
        ("GRPOTrainer._prepare_inputs", None),
        ("GRPOTrainer._get_per_token_logps_and_entropies", "rl.log_probs"),
    ],
)
def test_a_context_with_the_name_of_a_phase_begins_it_each_time(recorded, loop, name, phase):
    for _ in range(2):
        with Context(name):
            assert list(loop.open_phases) == ([phase] if phase else [])
        assert loop.open_phases == {}
        assert profiling._open == {}
    assert names(recorded).count(phase) == (2 if phase else 0)


def test_log_probabilities_inside_a_forward_pass_begin_nothing(recorded, loop):
    with loop.phase(spans.RL_FORWARD, _scope), Context("GRPOTrainer._get_per_token_logps_and_entropies"):
        assert list(loop.open_phases) == ["rl.train", "rl.forward"]
    assert "rl.log_probs" not in names(recorded)


def test_inside_the_rewards_each_context_is_a_reward_function(recorded, loop):
    with Context("GRPOTrainer._calculate_rewards"), Context("GRPOTrainer.exact"):
        pass
    deferral.drain_all()
    [function] = [span for span in recorded.spans if span.attributes.get("rl.reward.name")]
    assert function.attributes["rl.reward.name"] == "exact"


def test_an_error_of_the_block_is_that_of_the_phase(recorded, loop):
    with pytest.raises(ZeroDivisionError), Context("GRPOTrainer.sync_weights"):
        1 / 0  # noqa: B018 - to raise
    deferral.drain_all()
    [span] = [span for span in recorded.spans if span.name == "rl.sync"]
    assert span.attributes["error.type"] == "ZeroDivisionError"


def test_of_contexts_that_are_never_left_the_oldest_end(recorded, loop, monkeypatch):
    monkeypatch.setattr(profiling, "MAXIMUM_OPEN", 2)
    with loop.phase(spans.RL_REWARD, _scope):
        contexts = [Context(f"GRPOTrainer.function {number}") for number in range(4)]
        for context in contexts:
            context.__enter__()
        assert len(profiling._open) == 2
        deferral.drain_all()
        ended = [span.attributes["rl.reward.name"] for span in recorded.spans if "rl.reward.name" in span.attributes]
        assert ended == ["function 0", "function 1"]
        assert contexts[0].__exit__(None, None, None) is False
        assert contexts[0].left == 1


def test_the_end_of_a_context_of_an_earlier_step_leaves_the_present_one_current(recorded, loop, monkeypatch):
    monkeypatch.setattr(profiling, "MAXIMUM_OPEN", 2)
    with Context("GRPOTrainer._calculate_rewards"):
        never_left = Context("GRPOTrainer.never left")
        never_left.__enter__()
    loop.begin_step(2, _scope)
    with Context("GRPOTrainer._calculate_rewards"):
        current, inner = get_current(), Context("GRPOTrainer.exact")
        with inner:
            assert innermost().step.iteration == 2
            assert baggage.get_baggage("rl.loop.iteration") == "2"
            assert steps.where().step_of_context is loop.step
        assert get_current() is current
    assert names(recorded).count("rl.reward") == 4


def test_a_context_with_the_id_of_one_that_is_gone_ends_it(recorded, loop):
    with loop.phase(spans.RL_REWARD, _scope):
        context = Context("GRPOTrainer.gone")
        context.__enter__()
        context.name = "GRPOTrainer.next"
        with context:
            deferral.drain_all()
            ended = [span.attributes.get("rl.reward.name") for span in recorded.spans if span.name == "rl.reward"]
            assert ended == ["gone"]
    assert profiling._open == {}


def test_the_phase_of_the_oldest_context_goes_on_until_its_step_ends(recorded, loop, monkeypatch):
    monkeypatch.setattr(profiling, "MAXIMUM_OPEN", 2)
    with Context("GRPOTrainer._calculate_rewards"):
        contexts = [Context(f"GRPOTrainer.function {number}") for number in range(3)]
        for context in contexts:
            context.__enter__()
        assert list(loop.open_phases) == ["rl.reward"]
    loop.begin_step(2, _scope)
    assert loop.open_phases == {}
