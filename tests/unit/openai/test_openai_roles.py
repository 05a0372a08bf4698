"""Calls of judges, and those that tools make, are no turns of a rollout: they have columns of their own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

import otel_rl
from otel_rl.core import settings
from otel_rl.semconv import spans
from otel_rl.telemetry import Scope
from otel_rl.training import trajectories
from otel_rl.training.phases import Phase

#: What the policy's two calls and one of another are in a row.
POLICY = {
    "turns": 2,
    "model_calls": 2,
    "model_errors": 0,
    "input_tokens": 14,
    "output_tokens": 6,
    "stop_reason": "stop",
}
JUDGE = {"judge_calls": 1, "judge_errors": 0, "judge_input_tokens": 7, "judge_output_tokens": 3}
TOOL = {
    "tool_model_calls": 1,
    "tool_model_errors": 0,
    "tool_model_input_tokens": 7,
    "tool_model_output_tokens": 3,
}


@pytest.fixture
def ask(client):
    """Asks a model."""
    return lambda model="policy", **others: client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "2+2"}], **others
    )


@pytest.fixture
def judges(monkeypatch):
    """Names models that judge."""

    def name(value):
        monkeypatch.setenv("OTEL_RL_JUDGE_MODELS", value)
        settings.reset()

    yield name
    monkeypatch.undo()
    settings.reset()


@pytest.fixture
def rows(recorded, instrumented):
    """Gives the rows of the rollouts that have ended, without what this file is not about."""
    trajectories._forget()

    def of():
        trajectories.record()
        bodies = [record.body for record in recorded.events("rl.trajectories")]
        known = [
            {key.removeprefix("rl.rollout."): values[place] for key, values in body.items() if len(values) > place}
            for body in bodies
            for place in range(len(body["rl.rollout.id"]))
        ]
        return [{key: value for key, value in row.items() if value is not None} for row in known]

    yield of
    trajectories._forget()


def _roles(recorded):
    return [
        span.attributes.get("rl.inference.role")
        for span in sorted(recorded.spans, key=lambda span: span.start_time)
        if span.name.startswith("chat")
    ]


def test_a_judge_inside_a_reward_function_is_no_turn(ask, rows, recorded):
    @otel_rl.reward_function("judged")
    def judged():
        ask("judge")
        return 1.0

    with otel_rl.rollout() as it:
        ask()
        ask()
        judged()
        it.succeed()
    [row] = rows()
    assert (POLICY | JUDGE).items() <= row.items()
    assert not TOOL.keys() & row.keys()
    assert _roles(recorded) == ["policy", "policy", "judge"]
    totals = recorded.span("rl.rollout").attributes
    assert (totals["rl.rollout.turns"], totals["rl.rollout.judge_calls"]) == (2, 1)
    [judge] = [span for span in recorded.spans if span.attributes.get("rl.inference.role") == "judge"]
    assert "rl.rollout.turn" not in judge.attributes


@pytest.mark.parametrize("kind", ["thread", "pool", "task"])
def test_a_judge_that_a_reward_function_asks_elsewhere_is_no_turn(kind, ask, client, server, rows):
    async def in_tasks():
        async with openai.AsyncOpenAI(api_key="none", base_url=server.base_url) as other:
            question = other.chat.completions.create(model="judge", messages=[{"role": "user", "content": "2+2"}])
            await asyncio.create_task(question)

    @otel_rl.reward_function("judged")
    def judged():
        if kind == "task":
            asyncio.run(in_tasks())
        elif kind == "pool":
            with ThreadPoolExecutor() as pool:
                pool.submit(ask, "judge").result()
        else:
            asyncio.run(asyncio.to_thread(ask, "judge"))
        return 1.0

    with otel_rl.rollout():
        ask()
        ask()
        judged()
    [row] = rows()
    assert (POLICY | JUDGE).items() <= row.items()


def test_a_judge_inside_of_the_phase_reward_is_no_turn_and_the_policy_goes_on_after_it(ask, rows, recorded):
    with otel_rl.step(1), otel_rl.rollout():
        ask()
        with otel_rl.phase("reward"):
            ask("judge")
        ask()
    [row] = rows()
    assert (POLICY | JUDGE).items() <= row.items()
    assert _roles(recorded) == ["policy", "judge", "policy"]


def test_a_phase_reward_that_another_phase_interrupts_judges_on(ask, rows, recorded):
    with otel_rl.step(1), otel_rl.rollout(), otel_rl.phase("reward"):
        with otel_rl.phase("sample"):
            pass
        ask("judge")
    [row] = rows()
    assert JUDGE.items() <= row.items()
    assert "turns" not in row


@pytest.mark.parametrize("limit", [None, 0])
def test_the_reward_phase_of_a_trainer_judges_with_and_without_a_span(limit, ask, recorded):
    with otel_rl.step(1):
        with Phase(spans.RL_REWARD, Scope("trainer"), limit=limit):
            ask("judge")
        ask()
    assert _roles(recorded) == ["judge", None]


def test_a_task_that_outlives_the_reward_judges_no_longer(ask, rows):
    async def run():
        with otel_rl.rollout():
            go = asyncio.Event()

            async def later():
                await go.wait()
                await asyncio.to_thread(ask)

            with otel_rl.phase("reward"):
                task = asyncio.create_task(later())
            go.set()
            await task
            await asyncio.to_thread(ask)

    asyncio.run(run())
    [row] = rows()
    assert POLICY.items() <= row.items()


def test_the_last_turn_is_the_policys_whoever_was_asked_since(ask, judges, rows):
    judges("other, judge-*")
    with otel_rl.rollout():
        ask()
        ask("judge-70b")
        otel_rl.reward("judged", 0.7, turn="last")
        ask()
        ask("judge-70b")
        otel_rl.reward("judged", 0.9, turn="last")
    [row] = rows()
    assert POLICY.items() <= row.items()
    assert row["judge_calls"] == 2
    assert row["turn_rewards"] == [0.7, 0.9]


def test_a_star_stands_for_anything_and_no_other_character_does(ask, judges, rows):
    judges("meta/*-judge.v1,a")
    with otel_rl.rollout():
        ask("meta/big-judge.v1")
        ask("meta/big-judgeXv1")
        ask("ab")
    [row] = rows()
    assert (row["judge_calls"], row["model_calls"]) == (1, 2)


def test_a_model_inside_of_a_tool_is_the_tools(ask, rows, recorded):
    with otel_rl.rollout():
        ask()
        with otel_rl.tool("summarise"):
            ask("small")
        ask()
    [row] = rows()
    assert (POLICY | TOOL | {"tool_calls": 1}).items() <= row.items()
    assert not JUDGE.keys() & row.keys()
    assert _roles(recorded) == ["policy", "tool", "policy"]


def test_a_tool_that_a_reward_uses_is_the_judges(ask, rows):
    with otel_rl.rollout(), otel_rl.phase("reward"), otel_rl.tool("verify"):
        ask("small")
    [row] = rows()
    assert JUDGE.items() <= row.items()


def test_a_rollout_inside_of_a_tool_or_a_reward_has_turns_of_its_own(ask, rows):
    @otel_rl.reward_function("judged")
    def judged():
        with otel_rl.rollout(rollout_id="judge"):
            ask("judge")
            with otel_rl.tool("look up"):
                ask("small")
        return 1.0

    with otel_rl.rollout(rollout_id="outer"):
        ask()
        with otel_rl.tool("delegate"), otel_rl.rollout(rollout_id="inner"):
            ask()
            ask()
        judged()
        ask()
    found = {row["id"]: row for row in rows()}
    assert (POLICY | {"tool_calls": 1}).items() <= found["outer"].items()
    assert POLICY.items() <= found["inner"].items()
    assert (found["judge"]["turns"], found["judge"]["tool_model_calls"]) == (1, 1)
    assert not [key for name in ("outer", "inner") for key in found[name] if key in JUDGE | TOOL]


def test_a_failed_judge_makes_a_zero_suspect_and_is_no_error_of_the_policy(ask, rows):
    @otel_rl.reward_function("judged")
    def judged():
        with pytest.raises(openai.NotFoundError):
            ask("missing")
        return 0.0

    with otel_rl.rollout():
        ask()
        judged()
    [row] = rows()
    assert (row["judge_calls"], row["judge_errors"], row["model_errors"], row["suspect"]) == (1, 1, 0, True)
    assert "judge_input_tokens" not in row


def test_a_streamed_judge_counts_with_its_tokens(ask, rows):
    with otel_rl.rollout(), otel_rl.phase("reward"):
        list(ask("judge", stream=True, stream_options={"include_usage": True}))
    [row] = rows()
    assert JUDGE.items() <= row.items()


def test_all_calls_inside_a_judge_that_the_program_marks_are_the_judges(ask, judges, rows):
    judges("arbiter")
    with otel_rl.rollout(), otel_rl.llm("arbiter"):
        ask("m")
    [row] = rows()
    assert JUDGE.items() <= row.items()


def test_a_judge_that_is_shown_a_tools_result_has_not_used_it(client, server, rows, recorded):
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    server.extra = {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, "tool_calls": [call]},
                "finish_reason": "tool_calls",
            }
        ]
    }
    question = [{"role": "user", "content": "2+2"}]
    with otel_rl.rollout():
        client.chat.completions.create(model="policy", messages=question)
        with otel_rl.phase("reward"):
            said = {"role": "assistant", "content": None, "tool_calls": [call]}
            result = {"role": "tool", "tool_call_id": "c1", "content": "4"}
            client.chat.completions.create(model="judge", messages=[*question, said, result])
    [row] = rows()
    assert (row["tool_calls"], row["stop_reason"]) == (0, "tool_calls")
    assert recorded.events("rl.tool.returned") == []
