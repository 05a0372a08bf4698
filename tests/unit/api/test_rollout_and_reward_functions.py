"""Decorated rollouts and reward functions: input and output where content is wanted, status and score always."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import pickle
import weakref

import pytest
from opentelemetry import trace
from support.reward_readers import reward_means

import otel_rl
from otel_rl.api.scores import MOST_SCORES
from otel_rl.telemetry import deferral, drops
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE
from otel_rl.training import trajectories

torch = pytest.importorskip("torch")

INPUT, OUTPUT = "rl.rollout.input", "rl.rollout.output"
REWARD_INPUT, REWARD_OUTPUT = "rl.reward.input", "rl.reward.output"
CONTENT = {INPUT, OUTPUT, REWARD_INPUT, REWARD_OUTPUT}


@pytest.fixture
def captured(monkeypatch, recorded):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY")
    return recorded


@pytest.fixture
def uncaptured(monkeypatch, recorded):
    monkeypatch.delenv(CAPTURE_ENVIRONMENT_VARIABLE, raising=False)
    return recorded


def content_of(span):
    return {key: json.loads(span.attributes[key]) for key in CONTENT if key in span.attributes}


def rows(recorded):
    """The records of trajectories, with a list per column."""
    trajectories.record()
    deferral.drain_all()
    return [record.body for record in recorded.events("rl.trajectories")]


def scores(recorded):
    return [
        (one.attributes["gen_ai.evaluation.name"], one.attributes["gen_ai.evaluation.score.value"])
        for one in recorded.events("gen_ai.evaluation.result")
    ]


@otel_rl.reward_function("pickled")
def pickled(value):
    return value


def _hundred():
    yield from range(100)


# -- rollouts


def test_a_rollout_records_arguments_result_and_status(captured):
    @otel_rl.rollout()
    def collect(prompt, *, limit=3):
        return {"answer": prompt, "limit": limit}

    assert collect("q") == {"answer": "q", "limit": 3}
    span = captured.span("rl.rollout")
    assert content_of(span) == {INPUT: {"prompt": "q", "limit": 3}, OUTPUT: {"answer": "q", "limit": 3}}
    assert span.attributes["rl.rollout.status"] == "finished"


def test_coroutine_functions_and_methods_record_them_too(captured):
    class Agent:
        @otel_rl.rollout()
        async def run(self, prompt):
            await asyncio.sleep(0)
            return [prompt]

    assert inspect.iscoroutinefunction(Agent.run)
    assert asyncio.run(Agent().run("q")) == ["q"]
    assert content_of(captured.span("rl.rollout")) == {INPUT: {"prompt": "q"}, OUTPUT: ["q"]}


def test_the_result_of_a_generator_is_what_it_returns_or_else_its_items(captured):
    @otel_rl.rollout()
    def turns(prompt):
        yield f"{prompt}1"
        yield f"{prompt}2"

    @otel_rl.rollout()
    def answer(prompt):
        yield from turns(prompt)
        return "done"

    assert list(answer("a")) == ["a1", "a2"]
    inner, outer = (span for span in captured.spans if span.name == "rl.rollout")
    assert content_of(inner) == {INPUT: {"prompt": "a"}, OUTPUT: ["a1", "a2"]}
    assert content_of(outer) == {INPUT: {"prompt": "a"}, OUTPUT: "done"}


def test_items_of_an_asynchronous_generator_are_its_result_as_they_were_when_it_made_them(captured):
    @otel_rl.rollout()
    async def turns():
        state = {"turn": 0}
        for _ in range(2):
            state["turn"] += 1
            yield state

    async def consume():
        return [dict(item) async for item in turns()]

    assert asyncio.run(consume()) == [{"turn": 1}, {"turn": 2}]
    assert content_of(captured.span("rl.rollout"))[OUTPUT] == [{"turn": 1}, {"turn": 2}]


def test_items_of_a_generator_are_bounded(captured):
    assert list(otel_rl.rollout()(_hundred)()) == list(range(100))
    assert content_of(captured.span("rl.rollout"))[OUTPUT] == list(range(64))


def test_items_of_a_generator_are_not_kept_alive(captured):
    class Item:
        pass

    alive = []

    @otel_rl.rollout()
    def turns():
        for _ in range(100):
            item = Item()
            alive.append(weakref.ref(item))
            yield item

    assert sum(1 for _ in turns()) == 100
    gc.collect()
    assert [one for one in alive if one() is not None] == []


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError, "failed"), (asyncio.CancelledError, "cancelled"), (KeyboardInterrupt, "cancelled")],
)
def test_a_rollout_that_raises_has_its_status_and_no_result(captured, error, status):
    @otel_rl.rollout()
    def collect(prompt):
        raise error(prompt)

    with pytest.raises(error):
        collect("q")
    span = captured.span("rl.rollout")
    assert content_of(span) == {INPUT: {"prompt": "q"}}
    assert span.attributes["rl.rollout.status"] == status
    assert rows(captured)[-1]["rl.rollout.status"] == [status]


def test_a_context_manager_takes_arguments_and_result(captured):
    with otel_rl.rollout(arguments={"prompt": "q"}) as it:
        it.result("a")
        it.discard("too_long")
    span = captured.span("rl.rollout")
    assert content_of(span) == {INPUT: {"prompt": "q"}, OUTPUT: "a"}
    assert span.attributes["rl.rollout.status"] == "discarded"


def test_without_content_nothing_of_them_is_recorded_or_looked_at(uncaptured):
    class Secret:
        def __str__(self):
            raise AssertionError

        __repr__ = __str__

    @otel_rl.rollout()
    def collect(prompt):
        return score(prompt) or prompt

    @otel_rl.rollout()
    def turns(prompt):
        yield prompt
        return prompt

    @otel_rl.reward_function("score")
    def score(answer):
        return None

    secret = Secret()
    assert collect(secret) is secret
    assert list(turns(secret)) == [secret]
    assert len(uncaptured.spans) == 3
    assert all(not CONTENT & span.attributes.keys() for span in uncaptured.spans)


# -- classes


def test_decorating_a_class_wraps_its_call_and_leaves_the_class(captured):
    @otel_rl.rollout()
    class Agent:
        __slots__ = ("name",)

        def __init__(self, name):
            self.name = name

        def __call__(self, prompt):
            return f"{self.name} {prompt}"

    agent = Agent("a")
    assert isinstance(Agent, type)
    assert isinstance(agent, Agent)
    assert agent("q") == "a q"
    assert content_of(captured.span("rl.rollout")) == {INPUT: {"prompt": "q"}, OUTPUT: "a q"}


def test_a_class_that_inherits_its_call_is_wrapped_and_its_base_is_not(recorded):
    class Base:
        def __call__(self):
            return 1.0

    @otel_rl.reward_function("judge")
    class Judge(Base):
        pass

    assert Base()() == 1.0
    assert recorded.spans == []
    assert Judge()() == 1.0
    assert recorded.span("rl.reward").attributes["rl.reward.name"] == "judge"


@pytest.mark.parametrize("decorator", [otel_rl.rollout(), otel_rl.reward_function("judge")])
def test_a_class_whose_objects_cannot_be_called_is_refused_with_what_to_do(decorator):
    with pytest.raises(TypeError, match="decorate the method that does the work"):

        @decorator
        class Agent:
            def run(self):
                """Never called."""


def test_a_reward_function_without_parentheses_is_refused():
    with pytest.raises(TypeError, match="with parentheses"):

        @otel_rl.reward_function
        def correct():
            """Never called."""


# -- reward functions


def test_a_reward_function_is_a_span_below_its_rollout_and_its_score_is_that_of_the_rollout(captured):
    @otel_rl.reward_function("correct", weight=0.5)
    def correct(answer, expected):
        trace.get_current_span().set_attribute("inside", True)
        return float(answer == expected)

    with otel_rl.rollout("r-1"):
        assert correct("4", expected="4") == 1.0
    rollout, reward = captured.span("rl.rollout"), captured.span("rl.reward")
    assert reward.parent.span_id == rollout.context.span_id
    assert reward.attributes["rl.reward.name"] == "correct"
    assert reward.attributes["inside"] is True
    assert content_of(reward) == {REWARD_INPUT: {"answer": "4", "expected": "4"}, REWARD_OUTPUT: 1.0}
    (event,) = captured.events("gen_ai.evaluation.result")
    assert event.span_id == rollout.context.span_id
    assert event.attributes["rl.reward.weight"] == 0.5
    assert rollout.attributes["rl.rollout.reward"] == 0.5
    (body,) = rows(captured)
    assert body["rl.reward.names"] == ["correct"]
    assert body["rl.reward.scores"] == [[1.0]]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (torch.tensor(0.25), 0.25),
        (torch.tensor([0.25]), 0.25),
        ([0.25], 0.25),
        ((0.25,), 0.25),
        (None, None),
        ([], None),
        ([None], None),
        (float("nan"), None),
    ],
)
def test_one_score_is_that_of_the_rollout_however_it_is_written(recorded, value, expected):
    with otel_rl.rollout():
        assert otel_rl.reward_function("f")(lambda: value)() is value
    assert recorded.span("rl.rollout").attributes.get("rl.rollout.reward") == expected


@pytest.mark.parametrize("value", ["text", (1.0, "why"), {"correct": 1.0}, object(), torch.empty(1, device="meta")])
def test_what_is_no_score_is_dropped_and_counted(recorded, value):
    before = drops.snapshot().get(("metrics", "unsupported_type"), 0)
    with otel_rl.rollout():
        assert otel_rl.reward_function("f")(lambda: value)() is value
    assert "rl.rollout.reward" not in recorded.span("rl.rollout").attributes
    assert scores(recorded) == []
    assert drops.snapshot()["metrics", "unsupported_type"] == before + 1


def test_a_dictionary_with_a_score_has_the_other_numbers_as_parts(recorded):
    with otel_rl.rollout():
        otel_rl.reward_function("f")(lambda: {"score": 0.5, "format": 1, "pred": "42"})()
    assert scores(recorded) == [("f", 0.5), ("f/format", 1.0)]
    assert recorded.span("rl.rollout").attributes["rl.rollout.reward"] == 0.5


@pytest.mark.parametrize("value", [[1.0, None, 0.0], (1.0, None, 0.0), torch.tensor([1.0, float("nan"), 0.0])])
def test_a_list_has_one_score_for_each_sample_and_none_of_the_rollout(recorded, value):
    with otel_rl.step(1):
        otel_rl.reward_function("f", weight=2.0)(lambda: value)()
    deferral.drain_all()
    (point,) = recorded.metrics()["rl.reward.score"]
    assert (point.count, point.sum) == (2, 1.0)
    assert scores(recorded) == []
    assert reward_means(recorded) == {}


def test_a_reward_function_that_raises_is_an_error_without_a_score_and_makes_a_zero_suspect(recorded):
    error = RuntimeError("s3cret")

    @otel_rl.reward_function("judge")
    def judge():
        raise error

    with otel_rl.rollout():
        try:
            judge()
        except RuntimeError as caught:
            assert caught is error  # noqa: PT017 - the program goes on
        otel_rl.reward("judge", 0.0)
    reward, rollout = recorded.span("rl.reward"), recorded.span("rl.rollout")
    assert reward.status.status_code.name == "ERROR"
    assert reward.attributes["error.type"] == "RuntimeError"
    assert reward.end_time >= reward.start_time
    assert rollout.attributes["rl.rollout.suspect"] is True
    assert "s3cret" not in str([span.to_json() for span in recorded.spans])


def test_generator_and_coroutine_reward_functions_score_with_what_they_return(recorded):
    @otel_rl.reward_function("g")
    def generated():
        yield "thinking"
        return 0.5

    @otel_rl.reward_function("c")
    async def awaited():
        await asyncio.sleep(0)
        return 0.25

    with otel_rl.rollout():
        assert list(generated()) == ["thinking"]
        assert asyncio.run(awaited()) == 0.25
    assert scores(recorded) == [("g", 0.5), ("c", 0.25)]


def test_a_context_manager_takes_the_score(captured):
    with otel_rl.rollout(), otel_rl.reward_function("judge", arguments="a") as call:
        call.score(0.5)
    assert scores(captured) == [("judge", 0.5)]
    assert content_of(captured.span("rl.reward")) == {REWARD_INPUT: "a", REWARD_OUTPUT: 0.5}


def test_concurrent_rollouts_get_their_own_scores(recorded):
    @otel_rl.reward_function("f")
    async def score(value):
        await asyncio.sleep(0)
        return value

    @otel_rl.rollout()
    async def collect(value):
        await asyncio.gather(score(value), asyncio.sleep(0))

    async def main():
        await asyncio.gather(*(collect(float(number)) for number in range(20)))

    asyncio.run(main())
    found = sorted(span.attributes["rl.rollout.reward"] for span in recorded.spans if span.name == "rl.rollout")
    assert found == [float(number) for number in range(20)]


def test_a_loop_that_scores_sample_by_sample_has_few_spans_and_all_scores(recorded):
    score = otel_rl.reward_function("f")(lambda value: value)
    with otel_rl.step(1):
        for number in range(100):
            score(float(number))
    assert len([span for span in recorded.spans if span.name == "rl.reward"]) == 16
    assert len(scores(recorded)) == 100


def test_decorated_functions_stay_what_they_are():
    assert pickle.loads(pickle.dumps(pickled)) is pickled  # noqa: S301 - our own bytes
    assert str(inspect.signature(pickled)) == "(value)"
    assert pickled(3) == 3


def test_what_the_redaction_clears_is_in_no_content(captured, monkeypatch):
    monkeypatch.setattr("otel_rl.telemetry.redaction.redact", lambda: lambda text: text.replace("s3cret", "***"))

    @otel_rl.rollout()
    def turns(prompt):
        yield f"{prompt} s3cret"

    assert list(turns("s3cret")) == ["s3cret s3cret"]
    assert content_of(captured.span("rl.rollout")) == {INPUT: {"prompt": "***"}, OUTPUT: ["*** ***"]}


def test_a_generator_that_is_given_up_has_the_items_that_it_made(captured):
    @otel_rl.rollout()
    def turns():
        yield 1
        yield 2

    made = turns()
    assert next(made) == 1
    made.close()
    deferral.drain_all()
    span = captured.span("rl.rollout")
    assert content_of(span) == {OUTPUT: [1]}
    assert span.attributes["rl.rollout.status"] == "finished"


class Watched(tuple):  # noqa: SLOT001 - counts
    """A tuple that says how much of it has been read."""

    read = 0

    def __iter__(self):
        for one in super().__iter__():
            self.read += 1
            yield one


def test_of_a_tuple_no_more_scores_are_read_than_are_kept(recorded):
    @otel_rl.reward_function("many")
    def judge():
        return Watched([0.5] * 100_000)

    def dropped():
        return drops.snapshot().get(("metrics", "reward_batch_limit"), 0)

    before = dropped()
    result = judge()
    # Once to see that it holds scores, once to take them.
    assert result.read <= 2 * (MOST_SCORES + 1)
    assert dropped() - before == 100_000 - MOST_SCORES
