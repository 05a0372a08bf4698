"""``otel-rl export --trajectories`` of a run that was recorded: the rows, with the messages of their traces."""

from __future__ import annotations

import json
import time
from pathlib import Path

from unit.report.synthetic_run import SECOND, process

RUN = Path("run-1")
TOOLS = [{"type": "function", "name": "add"}]


def said(role, *parts):
    return {"role": role, "parts": list(parts)}


def text(content):
    return {"type": "text", "content": content}


QUESTION = said("user", text("1 + 1?"))
CALL = said("assistant", {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1, "b": 1}})
RESULT = said("tool", {"type": "tool_call_response", "id": "c1", "response": "2"})
ANSWER = said("assistant", text("It is 2."))


def ask(writer, rollout, begin, given, made):
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([made]),
        "gen_ai.tool.definitions": json.dumps(TOOLS),
    }
    writer.span("chat m", begin, begin + 0.5, attributes, parent=rollout)


def record(with_text=True):
    writer = process(RUN, 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    rollout = writer.span("rl.rollout", 0.0, 9.0)
    if with_text:
        ask(writer, rollout, 1.0, [QUESTION], CALL)
        ask(writer, rollout, 2.0, [QUESTION, CALL, RESULT], ANSWER)
    body = {
        "rl.rollout.id": ["a", "b"],
        "rl.rollout.trace_id": [f"{rollout.trace_id:032x}", None],
        "rl.rollout.reward": [1.0, 0.0],
    }
    for step in (3, 4):
        of_step = {"rl.loop.iteration": step, "rl.trajectories.source": "rollout"}
        writer.event("rl.trajectories", float(step), body if step == 3 else {"rl.rollout.id": ["b"]}, of_step)
    if with_text:
        sample = {
            "rl.rollout.id": "b",
            "rl.loop.iteration": 4,
            "gen_ai.input.messages": json.dumps([QUESTION]),
            "gen_ai.output.messages": json.dumps([ANSWER]),
        }
        writer.event("rl.trajectory.content", 4.0, None, sample)
    writer.write()


def test_each_message_is_there_once_as_it_was_recorded_with_the_tools(exported):
    record()
    lines, note = exported(RUN)

    assert [(line["step"], line["rl.rollout.id"]) for line in lines] == [(3, "a"), (3, "b"), (4, "b")]
    assert lines[0]["messages"] == [QUESTION, CALL, RESULT, ANSWER]
    assert lines[0]["tools"] == TOOLS
    assert lines[0]["rl.rollout.reward"] == 1.0
    assert note == ""


def test_the_text_of_a_sample_is_that_of_its_step(exported):
    record()
    _, without, with_text = exported(RUN)[0]

    assert "messages" not in without
    assert with_text["messages"] == [QUESTION, ANSWER]


def test_a_run_without_content_has_its_rows_and_one_line_says_what_records_it(exported):
    record(with_text=False)
    lines, note = exported(RUN)

    assert [line["rl.rollout.id"] for line in lines] == ["a", "b", "b"]
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in note
    assert len(note.splitlines()) == 1
