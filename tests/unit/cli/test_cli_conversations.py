"""``otel-rl trajectories --rollout``: each message of a conversation once, however the program sends the history."""

from __future__ import annotations

import json
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from support import compressed_store
from unit.report.synthetic_run import SECOND, process

from otel_rl.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM = {"role": "system", "parts": [{"type": "text", "content": "S"}]}


def said(role: str, *parts: Any) -> dict[str, Any]:
    texts = [{"type": "text", "content": part} if isinstance(part, str) else part for part in parts]
    return {"role": role, "parts": texts}


def user(text: str) -> dict[str, Any]:
    return said("user", text)


def answer(*parts: Any) -> dict[str, Any]:
    return said("assistant", *parts)


def calls_tool(identifier: str, *parts: Any) -> dict[str, Any]:
    return answer(*parts, {"type": "tool_call", "id": identifier, "name": "run", "arguments": {}})


def result(identifier: str, text: str = "exit code 1") -> dict[str, Any]:
    return said("tool", {"type": "tool_call_response", "id": identifier, "response": text})


class Rollout:
    """A rollout whose model calls another instrumentor records: each with its whole history."""

    def __init__(self, folder: Path, capsys: Any) -> None:
        self.folder, self._capsys, self._times = folder / "run-1", capsys, count(1)
        self.writer = process(self.folder, 0, world_size=1, started=time.time_ns() - 600 * SECOND)
        self.span = self.writer.span("rl.rollout", 0.0, 500.0)

    def ask(self, given: list[Any], made: Any, parent: Any = None, **further: Any) -> Any:
        begin = float(next(self._times))
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(given),
            "gen_ai.output.messages": json.dumps([made]),
            **further,
        }
        return self.writer.span("chat m", begin, begin + 0.5, attributes, parent=parent or self.span)

    def lines(self) -> list[dict[str, Any]]:
        body = {"rl.rollout.id": ["r"], "rl.rollout.trace_id": [f"{self.span.trace_id:032x}"]}
        self.writer.event("rl.trajectories", 1.0, body, {"rl.loop.iteration": 3, "rl.trajectories.source": "rollout"})
        self.writer.write()
        assert main(["trajectories", str(self.folder), "--rollout", "r"]) == 0
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def texts(self) -> list[str]:
        return [line["text"] for line in self.lines()]


@pytest.fixture
def rollout(tmp_path: Path, capsys: Any) -> Rollout:
    return Rollout(tmp_path, capsys)


def test_the_same_result_of_a_tool_in_each_turn_is_there_in_each_turn(rollout: Rollout) -> None:
    history = [SYSTEM]
    for turn in range(4):
        rollout.ask(history, calls_tool(f"c{turn}"))
        # For the content that the server gives as null this program sends an empty text.
        history = [*history, calls_tool(f"c{turn}", ""), result(f"c{turn}")]
    rollout.ask(history, answer("done"))

    assert rollout.texts() == ["S", *["[calls run] {}", "exit code 1"] * 4, "done"]


def test_a_changed_answer_in_a_history_is_there_beside_what_was_answered(rollout: Rollout) -> None:
    history = [SYSTEM]
    for turn in range(3):
        history = [*history, user("Your move.")]
        rollout.ask(history, answer(f"I think. Move {turn}"))
        history = [*history, answer(f"Move {turn}")]

    turns = [["Your move.", f"I think. Move {turn}", f"Move {turn}"] for turn in range(3)]
    assert rollout.texts() == ["S", *(text for turn in turns for text in turn)][:-1]


def test_an_answer_that_is_sent_again_without_its_reasoning_is_no_other_one(rollout: Rollout) -> None:
    history = [user("one")]
    for turn in range(2):
        thought = {"type": "reasoning", "content": f"hm {turn}"}
        rollout.ask(history, answer(thought, f"answer {turn}"))
        history = [*history, answer(f"answer {turn}"), user("more")]

    assert rollout.texts() == ["one", "[reasoning] hm 0\nanswer 0", "more", "[reasoning] hm 1\nanswer 1"]


def test_turns_that_a_window_leaves_out_are_not_lost_and_the_others_not_said_twice(rollout: Rollout) -> None:
    history = [SYSTEM]
    for _ in range(6):
        history = [*history, user("continue")]
        rollout.ask(history, answer("ok"))
        history = [*history, answer("ok")]
        if len(history) > 5:
            history = [history[0], *history[3:]]

    assert rollout.texts() == ["S", *["continue", "ok"] * 6]


def test_a_summary_in_place_of_old_turns_is_there_with_what_follows_it(rollout: Rollout) -> None:
    rollout.ask([SYSTEM, user("go on")], answer("a"))
    rollout.ask([SYSTEM, user("go on"), answer("a"), user("go on")], answer("b"))
    rollout.ask([SYSTEM, user("a summary"), answer("understood"), user("go on")], answer("c"))

    assert rollout.texts() == ["S", "go on", "a", "go on", "b", "a summary", "understood", "go on", "c"]


def test_a_system_prompt_that_changes_with_each_turn_is_there_with_what_came_with_it(rollout: Rollout) -> None:
    history: list[Any] = []
    for turn in range(3):
        history = [*history, user("look")]
        rollout.ask([said("system", f"time {turn}"), *history], answer(f"seen {turn}"))
        history = [*history, answer(f"seen {turn}")]

    assert rollout.texts() == [text for turn in range(3) for text in (f"time {turn}", "look", f"seen {turn}")]


def test_equal_answers_to_one_question_are_all_there(rollout: Rollout) -> None:
    for _ in range(3):
        rollout.ask([SYSTEM, user("one")], answer("yes"))
    rollout.ask([SYSTEM, user("one"), answer("yes"), user("two")], answer("no"))

    assert rollout.texts() == ["S", "one", "yes", "yes", "yes", "two", "no"]


def test_a_second_span_of_one_call_says_nothing_twice(rollout: Rollout) -> None:
    outer = rollout.ask([SYSTEM, user("one")], answer("yes"))
    rollout.ask([SYSTEM, user("one")], answer("yes"), parent=outer)

    assert rollout.texts() == ["S", "one", "yes"]


def test_each_line_says_agent_model_and_turn_where_they_are_known(rollout: Rollout) -> None:
    agent = rollout.writer.span("invoke_agent planner", 0.5, 400.0, {"gen_ai.agent.name": "planner"}, rollout.span)
    known = {"gen_ai.response.model": "m-2", "gen_ai.request.model": "m", "rl.rollout.turn": 7}
    rollout.ask([user("one")], answer("two"), parent=agent, **known)
    rollout.ask([user("three")], answer("four"))

    keys = ("agent", "model", "turn", "text")
    assert [{key: line[key] for key in keys if key in line} for line in rollout.lines()] == [
        {"agent": "planner", "model": "m-2", "turn": 7, "text": "one"},
        {"agent": "planner", "model": "m-2", "turn": 7, "text": "two"},
        {"text": "three"},
        {"text": "four"},
    ]


@pytest.mark.parametrize("ending", ["", "\\", "\\u00"])
def test_messages_that_a_limit_cut_off_are_there_as_far_as_they_go_and_it_is_said(
    rollout: Rollout, ending: str
) -> None:
    encoded = json.dumps([SYSTEM, user("x" * 100)])
    cut = encoded[: encoded.index("xx") + 30] + ending
    rollout.ask([], answer("one"), **{"gen_ai.input.messages": cut})
    rollout.ask([], answer("two"), **{"gen_ai.input.messages": cut})

    note = f"[cut off: of these messages the first {len(cut)} characters are recorded, see docs/content.md]"
    assert rollout.texts() == ["S", "x" * 30, note, "one", note, "two"]


def test_a_text_that_was_cut_shorter_with_each_turn_is_one_message(rollout: Rollout) -> None:
    rollout.ask([user("a" * 900)], answer("one"))
    rollout.ask([user("a" * 90 + "... [truncated, 900 characters]"), answer("one"), user("b")], answer("two"))
    rollout.ask([user("a" * 9 + "... [truncated, 900 characters]"), answer("one"), user("c")], answer("three"))

    assert rollout.texts() == ["a" * 900, "one", "b", "two", "c", "three"]


def test_messages_that_the_content_limit_left_out_are_told(rollout: Rollout) -> None:
    rollout.ask([SYSTEM, {"role": "omitted", "parts": [{"type": "omitted", "count": 9}]}, user("x")], answer("y"))

    assert rollout.texts() == ["S", "[omitted] 9 left out here by the length limit of content", "x", "y"]


def test_a_file_with_spans_that_is_cut_off_is_named(rollout: Rollout, capsys: Any) -> None:
    rollout.ask([SYSTEM], answer("one"))
    rollout.lines()
    path = compressed_store.compress(next(rollout.folder.glob("*/traces-0001.jsonl")))
    path.write_bytes(path.read_bytes()[:-20])

    assert main(["trajectories", str(rollout.folder), "--rollout", "r"]) == 0
    assert f"({path.parent.name}/{path.name}: its compressed data is cut off; " in capsys.readouterr().err
