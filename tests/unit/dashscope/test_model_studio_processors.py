"""Processors of Model Studio: each call of a program's own class is a rollout with a row, or a reward with a score."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from dashscope.finetune.reinforcement import (
    AbstractGroupRewardProcessor,
    AbstractRewardProcessor,
    AbstractRolloutProcessor,
    AgentOutput,
    GroupReward,
    GroupRewardInput,
    GroupRewardOutput,
    Reward,
    RewardInput,
    RewardOutput,
    RolloutInput,
    RolloutOutput,
    TaskStatus,
    aggregate_func,
    reward_func,
    sub_reward_func,
)
from dashscope.finetune.reinforcement.common.model_types import FunctionType
from dashscope.finetune.reinforcement.component.func_manager import FuncManager
from dashscope.finetune.reinforcement.component.observability import rollout_context
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.reward_readers import log_of, rows

from otel_rl.instrumentors.dashscope import DashScopeInstrumentor
from otel_rl.telemetry import drops
from otel_rl.training import trajectories, trajectory_changes

pytestmark = pytest.mark.usefixtures("instrumented")
SECRET = "sk-of-the-policy"


def ids(rollout="ro-1", sample="s-1", attempt="2"):
    return {"job_id": "job", "sample_id": sample, "rollout_id": rollout, "attempt_id": attempt}


def question(metadata=None):
    resource = {"model_name": "tiny", "base_url": "http://127.0.0.1", "api_key": SECRET}
    messages = [{"role": "user", "content": "2+2?"}]
    return RolloutInput(messages=messages, model_resource=resource, request_metadata=metadata, ground_truth="4")


def output(**metrics):
    return AgentOutput(messages=[{"role": "assistant", "content": "4"}], rollout_metrics=metrics)


def scored(of, metadata=None):
    return RewardInput(agent_output=of, ground_truth="4", request_metadata=metadata)


def reward(score, **metrics):
    return RewardOutput(reward=Reward(reward_score=score, reward_metrics=metrics))


def rows_of(recorded):
    trajectories.record()
    trajectory_changes.record()
    return rows(*[log_of(one) for one in recorded.events() if one.event_name.startswith("rl.trajectories")])


def make_rollout(kind, body=lambda: None):
    if kind == "sync":

        class Agent(AbstractRolloutProcessor):
            def process(self, input_data):
                body()
                return RolloutOutput(agent_output=output(hops=3.0))

    else:

        class Agent(AbstractRolloutProcessor):
            async def process(self, input_data):
                await asyncio.sleep(0)
                body()
                return RolloutOutput(agent_output=output(hops=3.0))

    return Agent


def run(value):
    return asyncio.run(value) if asyncio.iscoroutine(value) else value


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_call_of_a_rollout_processor_is_a_trajectory_with_its_ids_and_metrics(recorded, kind):
    seen = []
    agent = make_rollout(kind, lambda: seen.append(trace.get_current_span()))()
    assert asyncio.iscoroutinefunction(agent.process) is (kind == "async")
    given = run(agent.process(question(ids())))
    assert given.agent_output.rollout_metrics == {"hops": 3.0}
    span = recorded.span("rl.rollout")
    assert span.parent is None
    assert [one.get_span_context() for one in seen] == [span.context]
    expected = {"rl.rollout.id": "ro-1", "rl.sample.id": "s-1", "rl.rollout.attempt": 2}
    assert {name: span.attributes.get(name) for name in expected} == expected
    [row] = rows_of(recorded)
    assert row.get("rl.rollout.id") == "ro-1"
    assert row.get("rl.sample.id") == "s-1"
    assert row.get("rl.rollout.status") == "finished"
    assert row.metrics == {"hops": 3.0}


def test_the_ids_of_the_package_s_baggage_name_a_rollout_whose_input_has_none(recorded):
    agent = make_rollout("sync")()
    with rollout_context(rollout_id="ro-9", sample_id="s-9", attempt_id="1"):
        agent.process(question())
        agent.process(question(ids("ro-10")))
    named = [(span.attributes["rl.rollout.id"], span.attributes["rl.sample.id"]) for span in recorded.spans]
    assert named == [("ro-9", "s-9"), ("ro-10", "s-1")]


def test_an_attempt_that_is_no_number_is_dropped_and_counted(recorded):
    before = drops.snapshot().get(("traces", "unsupported_type"), 0)
    make_rollout("sync")().process(question(ids(attempt="first")))
    assert "rl.rollout.attempt" not in recorded.span("rl.rollout").attributes
    assert drops.snapshot()["traces", "unsupported_type"] == before + 1


def test_a_rollout_that_raises_or_reports_a_failure_has_failed(recorded):
    class Agent(AbstractRolloutProcessor):
        def process(self, input_data):
            if input_data.ground_truth == "4":
                raise KeyError("secret")
            return RolloutOutput(status=TaskStatus.FAILED, error="secret", error_code=input_data.ground_truth)

    agent = Agent()
    with pytest.raises(KeyError):
        agent.process(question())
    for code in ("ModelTimeout", None):
        failing = question()
        failing.ground_truth = code
        agent.process(failing)
    kinds = [span.attributes["error.type"] for span in recorded.spans]
    assert kinds == ["KeyError", "ModelTimeout", "failed"]
    assert {span.status.status_code for span in recorded.spans} == {StatusCode.ERROR}
    assert [row.get("rl.rollout.status") for row in rows_of(recorded)] == ["failed"] * 3
    assert "secret" not in "".join(span.to_json() for span in recorded.spans)


def test_super_is_part_of_the_same_call_and_a_base_of_the_program_is_followed_too(recorded):
    class Mixin:
        def process(self, input_data):
            return super().process(input_data)

    class Base(AbstractRolloutProcessor):
        def process(self, input_data):
            return RolloutOutput(agent_output=output())

    class Below(Base):
        def process(self, input_data):
            return super().process(input_data)

    class Inherits(Base):
        pass

    class Mixed(Mixin, Base):
        pass

    for number, kind in enumerate((Base, Below, Inherits, Mixed)):
        kind().process(question(ids(str(number))))
    assert [span.attributes["rl.rollout.id"] for span in recorded.spans] == ["0", "1", "2", "3"]


def test_what_is_abstract_stays_abstract_and_records_nothing(recorded):
    class Between(AbstractRolloutProcessor):
        pass

    for kind in (AbstractRolloutProcessor, AbstractRewardProcessor, AbstractGroupRewardProcessor, Between):
        with pytest.raises(TypeError, match="abstract"):
            kind()
    with pytest.raises(TypeError, match="keyword"):
        type("Wrong", (AbstractRolloutProcessor,), {}, option=1)
    assert recorded.spans == []


class Pickled(AbstractRolloutProcessor):
    """At the top of a module, made before the library was instrumented."""

    def process(self, input_data):
        return RolloutOutput(agent_output=output())


def test_a_class_that_was_there_before_is_followed_pickled_and_given_back(recorded):
    Pickled().process(question())
    assert pickle.loads(pickle.dumps(Pickled.process)) is Pickled.process  # noqa: S301 - ours
    assert type(copy.copy(Pickled())) is Pickled
    followed = vars(Pickled)["process"]
    DashScopeInstrumentor().uninstrument()
    try:
        assert followed.__wrapped__ is vars(Pickled)["process"]
        assert "__init_subclass__" not in vars(AbstractRolloutProcessor.__mro__[1])
        Pickled().process(question())
    finally:
        DashScopeInstrumentor().instrument(skip_dep_check=True)
    assert len(recorded.spans) == 1


class Exact(AbstractRewardProcessor):
    def process(self, input_data):
        return reward(1.0 if input_data.agent_output.messages[-1]["content"] == "4" else 0.0, length=1.0)


def test_a_reward_inside_of_its_rollout_is_in_its_trace_and_row(recorded):
    exact = Exact()

    class Agent(AbstractRolloutProcessor):
        def process(self, input_data):
            exact.process(scored(output()))
            return RolloutOutput(agent_output=output())

    Agent().process(question(ids()))
    scored_span, rollout = recorded.span("rl.reward"), recorded.span("rl.rollout")
    assert scored_span.parent.span_id == rollout.context.span_id
    assert scored_span.attributes["rl.reward.name"] == "Exact"
    [row] = rows_of(recorded)
    assert row.scores == {"Exact": 1.0, "Exact/length": 1.0}
    assert row.get("rl.rollout.reward") == 1.0


@pytest.mark.parametrize("known_by", ["ids", "object"])
def test_a_reward_in_a_later_call_is_linked_to_its_rollout_and_counts_in_its_row(recorded, known_by):
    given = make_rollout("sync")().process(question(ids()))
    Exact().process(scored(given.agent_output) if known_by == "object" else scored(output(), ids()))
    rollout, later = recorded.span("rl.rollout"), recorded.span("rl.reward")
    assert [link.context.trace_id for link in later.links] == [rollout.context.trace_id]
    assert later.attributes["rl.rollout.id"] == "ro-1"
    assert later.attributes.get("rl.sample.id") == ("s-1" if known_by == "ids" else None)
    [row] = rows_of(recorded)
    assert row.scores["Exact"] == 1.0


def test_a_reward_of_another_process_s_rollout_has_its_ids(recorded):
    Exact().process(scored(output(), ids("elsewhere")))
    span = recorded.span("rl.reward").attributes
    assert (span["rl.rollout.id"], span["rl.sample.id"]) == ("elsewhere", "s-1")
    scores = recorded.events("gen_ai.evaluation.result")
    assert {event.attributes["rl.rollout.id"] for event in scores} == {"elsewhere"}


def made_of_parts(aggregates):
    @reward_func("calculation")
    class Calculation(AbstractRewardProcessor):
        @sub_reward_func("right", sub_weight=0.75)
        def is_right(self, input_data):
            return reward(1.0, digits=1.0)

        @sub_reward_func(sub_weight=0.25)
        async def short(self, input_data):
            return reward(0.5)

        if aggregates:

            @aggregate_func
            def whole(self, sub_rewards):
                scores = self.get_scores(sub_rewards)
                return RewardOutput(reward=Reward(reward_score=max(scores.values())))

    return Calculation


@pytest.mark.parametrize("aggregates", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_sub_rewards_are_parts_with_spans_and_weights_below_their_reward(recorded, aggregates, inside):
    processor = made_of_parts(aggregates)(ThreadPoolExecutor(1))
    if inside:

        class Agent(AbstractRolloutProcessor):
            async def process(self, input_data):
                await processor.process(scored(output()))
                return RolloutOutput(agent_output=output())

        asyncio.run(Agent().process(question(ids())))
    else:
        make_rollout("sync")().process(question(ids()))
        asyncio.run(processor.process(scored(output(), ids())))
    spans = {span.attributes["rl.reward.name"]: span for span in recorded.spans if span.name == "rl.reward"}
    assert sorted(spans) == ["Calculation", "Calculation/right", "Calculation/short"]
    weights = {name: span.attributes.get("rl.reward.weight") for name, span in spans.items()}
    assert weights == {"Calculation": None, "Calculation/right": 0.75, "Calculation/short": 0.25}
    parents = {spans[name].parent.span_id for name in spans if "/" in name}
    assert parents == {spans["Calculation"].context.span_id}
    [row] = rows_of(recorded)
    total = 1.0 if aggregates else 0.875
    assert row.scores == {
        "Calculation": total,
        "Calculation/right": 1.0,
        "Calculation/right/digits": 1.0,
        "Calculation/short": 0.5,
    }
    assert row.get("rl.rollout.reward") == total


def test_a_sub_reward_that_raises_is_a_failed_span_and_no_score(recorded):
    @reward_func("calculation")
    class Calculation(AbstractRewardProcessor):
        @sub_reward_func("broken")
        def broken(self, input_data):
            raise ValueError("secret")

    asyncio.run(Calculation().process(scored(output())))
    broken, whole = (span for span in recorded.spans)
    assert (broken.attributes["error.type"], whole.status.status_code) == ("ValueError", StatusCode.UNSET)
    names = [event.attributes["gen_ai.evaluation.name"] for event in recorded.events("gen_ai.evaluation.result")]
    assert names == ["Calculation"]


class Ranked(AbstractGroupRewardProcessor):
    def process(self, input_data):
        scores = range(len(input_data.agent_outputs))
        rewards = [Reward(reward_score=score, reward_metrics={"rank": score}) for score in scores]
        return GroupRewardOutput(reward=GroupReward(rewards=rewards))


def test_a_group_has_one_score_for_each_sample_whose_rollout_returned_it(recorded):
    agent = make_rollout("sync")()
    outputs = [agent.process(question(ids(f"ro-{number}"))).agent_output for number in range(3)]
    Ranked().process(GroupRewardInput(agent_outputs=outputs, request_metadata=ids()))
    found = {row.get("rl.rollout.id"): row.scores for row in rows_of(recorded)}
    assert found == {f"ro-{number}": {"Ranked": number, "Ranked/rank": number} for number in range(3)}
    rollouts = {span.context.trace_id for span in recorded.spans if span.name == "rl.rollout"}
    assert {link.context.trace_id for link in recorded.span("rl.reward").links} == rollouts


def test_a_group_of_unknown_samples_has_its_scores_on_the_metric(recorded):
    Ranked().process(GroupRewardInput(agent_outputs=[output(), output()]))
    [point] = recorded.metrics()["rl.reward.score"]
    assert (point.count, point.sum, point.attributes["rl.reward.name"]) == (2, 1.0, "Ranked")


@pytest.mark.parametrize(
    "result",
    [
        RewardOutput.model_construct(),
        RewardOutput.model_construct(reward=Reward.model_construct()),
        RewardOutput.model_construct(reward=Reward.model_construct(reward_score="high")),
        GroupRewardOutput.model_construct(reward=GroupReward.model_construct(rewards=[None, "high"])),
        SimpleNamespace(reward=3),
    ],
    ids=["no reward", "no score", "text", "group", "other"],
)
def test_a_result_without_a_score_is_handed_on_and_scores_nothing(recorded, result):
    class Odd(AbstractRewardProcessor):
        def process(self, input_data):
            return result

    assert Odd().process(scored(output())) is result
    assert recorded.span("rl.reward").status.status_code is StatusCode.UNSET
    assert "rl.reward.score" not in recorded.metrics()


def test_a_score_that_is_no_number_counts_nowhere(recorded):
    class Undefined(AbstractRewardProcessor):
        def process(self, input_data):
            return reward(math.nan)

    make_rollout("sync")().process(question(ids()))
    Undefined().process(scored(output(), ids()))
    [row] = rows_of(recorded)
    assert row.get("rl.rollout.reward") is None
    assert "rl.reward.score" not in recorded.metrics()


def test_a_reward_that_reports_a_failure_has_failed_and_its_zero_is_no_score(recorded):
    class Judge(AbstractRewardProcessor):
        def process(self, input_data):
            return RewardOutput(
                reward=Reward(reward_score=0.0), status=TaskStatus.FAILED, error="secret", error_code=503
            )

    Judge().process(scored(output()))
    assert recorded.span("rl.reward").attributes["error.type"] == "503"
    assert "rl.reward.score" not in recorded.metrics()


def test_the_package_s_server_side_runs_a_processor_as_one_rollout_in_a_thread(recorded):
    agent = make_rollout("sync")()
    asyncio.run(FuncManager(FunctionType.ROLLOUT, agent).processes(question(ids())))
    assert [span.name for span in recorded.spans] == ["rl.rollout"]


def test_content_is_recorded_on_request_only_and_never_the_key(recorded, request):
    agent = make_rollout("sync")()
    agent.process(question())
    request.getfixturevalue("content")
    agent.process(question())
    without, with_content = recorded.spans
    assert "rl.rollout.input" not in without.attributes
    asked = json.loads(with_content.attributes["rl.rollout.input"])
    assert asked["input_data"]["messages"][0]["content"] == "2+2?"
    assert SECRET not in without.to_json() + with_content.to_json()
