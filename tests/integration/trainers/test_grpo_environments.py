"""GRPO with ``environment_factory``: resets, tools and rewards of environments are recorded where they happen."""

from __future__ import annotations

import inspect

import every_trainer
import pytest
from online_trainers import GROUP, tool_calling_trainer
from runs import LATEST
from virtual_work import PIECE, Clock, injected

pytestmark = LATEST


class Guessing:
    """The model has to find a number."""

    def __init__(self):
        self.found = False

    def reset(self, **_):
        every_trainer.work("reset")
        self.found = False
        return " Guess a number."

    def guess(self, number: int) -> str:
        """Says whether the number is right.

        Args:
            number: the guess
        """
        every_trainer.work("tool")
        if number > 1:
            raise ValueError("secret")
        self.found = number == 1
        return "right" if self.found else "wrong"

    def get_reward(self) -> float:
        every_trainer.work("reward")
        return float(self.found)


class Waiting(Guessing):
    """The same game, whose reward takes a while."""

    async def get_reward(self) -> float:
        return float(self.found)


class Broken(Guessing):
    """Cannot be reset."""

    def reset(self, **_):
        raise ConnectionError("secret")


def make(directory, monkeypatch, factory, rows, steps=1):
    """A trainer whose model is made to guess 0, 1, 2 and 3: a random one calls no tool."""
    return tool_calling_trainer(
        directory,
        monkeypatch,
        lambda turn: ("guess", {"number": turn % (2 * GROUP)}) if turn % (2 * GROUP) < GROUP else None,
        rows,
        steps,
        environment_factory=factory,
    )


ROWS = [{"prompt": [{"role": "user", "content": "Play."}]}] * 8


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(every_trainer, "work", found.work)
    return found


def test_resets_and_tools_are_sampling_and_the_reward_of_an_environment_is_reward(
    instrumented, recorded, tmp_path, monkeypatch, clock
):
    trainer = make(tmp_path, monkeypatch, Guessing, ROWS, steps=2)
    with injected(trainer, clock, monkeypatch):
        trainer.train()

    metrics = recorded.metrics()
    inside = {"rl.sample": ("reset", "sample", "tool"), "rl.reward": ("reward",)}
    for phase, kinds in inside.items():
        pieces = [piece for piece in clock.pieces if piece.kind in kinds]
        assert {piece.kind for piece in pieces} == set(kinds)
        spans = [span for span in recorded.spans if span.name == phase and "rl.reward.name" not in span.attributes]
        assert len(spans) == 2
        for piece in pieces:
            assert any(span.start_time <= piece.start and piece.end <= span.end_time for span in spans), piece.kind
        assert metrics[f"{phase}.duration"][0].sum == pytest.approx(len(pieces) * PIECE * 1e-9)
    assert sum(point.value for point in metrics["rl.sample.samples"]) == 2 * GROUP


def test_the_methods_that_a_model_calls_are_tool_calls(instrumented, recorded, tmp_path, monkeypatch):
    make(tmp_path, monkeypatch, Guessing, ROWS).train()

    tools = [span for span in recorded.spans if span.name == "execute_tool guess"]
    sampling = recorded.span("rl.sample")
    assert {span.parent.span_id for span in tools} == {sampling.context.span_id}
    assert sorted(span.attributes.get("error.type", "") for span in tools) == ["", "", "ValueError", "ValueError"]
    points = recorded.metrics()["gen_ai.execute_tool.duration"]
    assert {point.attributes["gen_ai.tool.name"] for point in points} == {"guess"}
    assert not any("secret" in span.to_json() for span in recorded.spans)


@pytest.mark.parametrize("environment", [Guessing, Waiting])
def test_the_reward_of_an_environment_has_the_name_of_its_class(
    instrumented, recorded, tmp_path, monkeypatch, environment
):
    make(tmp_path, monkeypatch, environment, ROWS).train()

    [point] = recorded.metrics()["rl.reward.score"]
    assert point.attributes["rl.reward.name"] == environment.__name__
    assert (point.count, point.sum) == (GROUP, 1.0)
    # Other tests of this process may have set the gauge under a scope of their own, which it keeps.
    assert 1.0 / GROUP in [mean.value for mean in recorded.metrics()["rl.environment.reward.mean"]]


def test_several_environments_have_rewards_of_their_own(instrumented, recorded, tmp_path, monkeypatch):
    rows = [{**ROWS[0], "environment": name} for name in ("guessing", "waiting")] * 4
    make(tmp_path, monkeypatch, {"guessing": Guessing, "waiting": Waiting}, rows, steps=2).train()

    points = {point.attributes["rl.reward.name"]: point for point in recorded.metrics()["rl.reward.score"]}
    assert points.keys() == {"Guessing", "Waiting"}
    assert {point.count for point in points.values()} == {GROUP}


def test_an_environment_that_cannot_be_reset_marks_the_sampling(instrumented, recorded, tmp_path, monkeypatch):
    with pytest.raises(ConnectionError):
        make(tmp_path, monkeypatch, Broken, ROWS).train()

    failed = {span.name for span in recorded.spans if span.attributes.get("error.type") == "ConnectionError"}
    assert failed == {"rl.loop", "rl.rank.step", "rl.sample"}
    assert not any("secret" in span.to_json() for span in recorded.spans)


def test_environments_stay_what_they_are(instrumented, tmp_path, monkeypatch):
    before = dict(inspect.getmembers(Guessing, predicate=inspect.isfunction))
    trainer = make(tmp_path, monkeypatch, Guessing, ROWS)
    trainer.train()

    assert dict(inspect.getmembers(Guessing, predicate=inspect.isfunction)) == before
    for environment, tools in zip(trainer.environments, trainer._sync_tool_dicts, strict=True):
        assert vars(environment).keys() == {"found"}
        assert tools == {"guess": environment.guess}
