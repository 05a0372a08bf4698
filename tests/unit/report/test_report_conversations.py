"""What was said in trajectories, where content was captured: which are kept, and how the page shows them."""

from __future__ import annotations

import json
import re
import time

import pytest
from unit.report.synthetic_run import SECOND, process

from otel_rl.report import write_report
from otel_rl.report.core.messages import LONGEST, Message, shortened
from otel_rl.report.subjects.trajectories.conversations import OF_A_KIND, OF_ALL_PARTS


def said(role, content, **further):
    return {"role": role, "parts": [{"type": "text", "content": content}], **further}


def content(number, reward, question="1 + 2?", answer="3"):
    """Attributes of a sample's content."""
    return {
        "rl.rollout.id": f"{number}-0",
        "rl.loop.iteration": number,
        "rl.rollout.reward": reward,
        "rl.trajectory.reason": "lowest_reward",
        "gen_ai.input.messages": json.dumps([said("user", question)]),
        "gen_ai.output.messages": json.dumps([said("assistant", answer, finish_reason="stop")]),
    }


def page_of(folder, fill):
    writer = process(folder / "run-1", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    fill(writer)
    writer.write()
    return write_report(folder / "run-1", folder / "page.html").output.read_text(encoding="utf-8")


def test_a_sample_of_a_trainer_leads_from_its_row_to_what_was_said(tmp_path):
    def fill(writer):
        body = {"rl.rollout.id": ["7-0", "7-1"], "rl.rollout.reward": [0.25, 1.0]}
        attributes = {"rl.trajectories.source": "trainer", "rl.trajectories.started": 2, "rl.loop.iteration": 7}
        writer.event("rl.trajectories", 2.0, body, attributes)
        writer.event("rl.trajectory.content", 2.0, None, content(7, 0.25))

    page = page_of(tmp_path, fill)
    assert "<summary>Sample 7-0, rank 0, reward 0.25, lowest reward" in page
    shown = re.sub(r"<[^>]+>", " ", page.partition('id="said-1"')[2].partition("</details>")[0])
    assert shown.split()[-5:] == ["1", "+", "2?", "assistant", "3"]
    assert 'class="message user"' in page
    assert 'class="messages" tabindex="0"' in page
    assert page.count('href="#said-1"') == 1


def test_what_a_model_says_is_no_part_of_the_page_itself(tmp_path):
    def fill(writer):
        attributes = {"rl.trajectories.source": "trainer", "rl.trajectories.started": 1}
        writer.event("rl.trajectories", 2.0, {"rl.rollout.id": ["1-0"]}, attributes)
        writer.event("rl.trajectory.content", 2.0, None, content(1, 0.0, answer="<script>alert(1)</script>"))

    page = page_of(tmp_path, fill)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_of_a_long_run_the_lowest_the_highest_and_some_of_all_parts_are_kept(tmp_path):
    def fill(writer):
        attributes = {"rl.trajectories.source": "trainer", "rl.trajectories.started": 1}
        writer.event("rl.trajectories", 2.0, {"rl.rollout.id": ["1-0"]}, attributes)
        for number in range(1, 1001):
            writer.event("rl.trajectory.content", 2.0, None, content(number, float(number)))

    page = page_of(tmp_path, fill)
    assert OF_A_KIND * 2 < page.count("<summary>Sample ") <= OF_A_KIND * 2 + OF_ALL_PARTS
    assert "<summary>Sample 1-0," in page
    assert "<summary>Sample 1000-0," in page


def test_the_calls_of_a_rollout_are_one_conversation(tmp_path):
    history = [said("user", "1 + 2?")]
    call = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "add", "arguments": {"a": 1}}]}
    answer = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "three"}]}

    def fill(writer):
        rollout = writer.span("rl.rollout", 1.0, 4.0, {"rl.rollout.id": "r"})
        for begin, given, made in (
            (1.0, history, call),
            (2.0, [*history, call, answer], said("assistant", "It is 3.")),
        ):
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps(given),
                "gen_ai.output.messages": json.dumps([{**made, "finish_reason": "stop"}]),
            }
            writer.span("chat m", begin, begin + 0.5, attributes, rollout)
        body = {"rl.rollout.id": ["r"], "rl.rollout.trace_id": [f"{rollout.trace_id:032x}"], "rl.rollout.reward": [0.0]}
        attributes = {"rl.trajectories.source": "rollout", "rl.trajectories.started": 1}
        writer.event("rl.trajectories", 4.0, body, attributes)

    page = page_of(tmp_path, fill)
    shown = page.partition("<summary>Trace ")[2].partition("</details>")[0]
    assert "<b>user</b><p>1 + 2?</p>" in shown
    assert shown.count("[calls add]") == shown.count("three") == shown.count("It is 3.") == 1
    assert shown.index("[calls add]") < shown.index("three") < shown.index("It is 3.")


def _rollout_page(folder, values, further=None):
    """The page of a run with a rollout, whose span has ``values``, and a call of a model with those of ``further``."""

    def fill(writer):
        rollout = writer.span("rl.rollout", 1.0, 4.0, {"rl.rollout.id": "r", **values})
        if further:
            writer.span("chat m", 2.0, 3.0, {"gen_ai.operation.name": "chat", **further}, rollout)
        body = {"rl.rollout.id": ["r"], "rl.rollout.trace_id": [f"{rollout.trace_id:032x}"], "rl.rollout.reward": [0.0]}
        writer.event("rl.trajectories", 4.0, body, {"rl.trajectories.source": "rollout", "rl.trajectories.started": 1})

    return page_of(folder, fill)


def test_what_a_rollout_was_given_and_has_returned_stands_around_its_conversation(tmp_path):
    values = {
        "rl.rollout.input": json.dumps({"prompt": "1 + 2?", "hint": "<b>three</b>"}),
        "rl.rollout.output": json.dumps("<script>alert(3)</script>"),
    }
    messages = {
        "gen_ai.input.messages": json.dumps([said("user", "What is 1 + 2?")]),
        "gen_ai.output.messages": json.dumps([said("assistant", "It is 3.", finish_reason="stop")]),
    }
    page = _rollout_page(tmp_path, values, messages)
    shown = page.partition("<summary>Trace ")[2].partition("</details>")[0]
    order = ["input of the rollout", "1 + 2?", "What is 1 + 2?", "It is 3.", "output of the rollout", "alert(3)"]
    assert [shown.index(one) for one in order] == sorted(shown.index(one) for one in order)
    assert "&lt;b&gt;three&lt;/b&gt;" in shown
    assert "&lt;script&gt;alert(3)&lt;/script&gt;" in shown
    assert "<script>alert" not in page
    assert "<b>three" not in page


def test_the_page_says_agent_model_and_turn_of_a_call_once(tmp_path):
    of_call = {"gen_ai.agent.name": "<i>planner", "gen_ai.request.model": "small", "rl.rollout.turn": 3}
    messages = {
        "gen_ai.input.messages": json.dumps([said("user", "What is 1 + 2?")]),
        "gen_ai.output.messages": json.dumps([said("assistant", "It is 3.", finish_reason="stop")]),
    }
    shown = _rollout_page(tmp_path, {"rl.rollout.input": '"1 + 2?"'}, {**of_call, **messages})
    shown = shown.partition("<summary>Trace ")[2].partition("</details>")[0]
    label = "<i>&lt;i&gt;planner, small, turn 3</i>"
    assert shown.index("input of the rollout") < shown.index(label) < shown.index("What is 1 + 2?")
    assert shown.count(label) == 1


@pytest.mark.parametrize("encoded", ["{", "[" * 100_000, '"a"', "7", "null"], ids=["cut", "deep", "text", "7", "null"])
def test_a_rollout_without_calls_of_a_model_shows_what_it_returned_in_any_form(tmp_path, encoded):
    shown = _rollout_page(tmp_path, {"rl.rollout.output": encoded}).partition("<summary>Trace ")[2]
    assert "output of the rollout" in shown.partition("</details>")[0]


def test_a_rollout_without_content_says_nothing(tmp_path):
    page = _rollout_page(tmp_path, {"rl.rollout.input": 7})
    assert "of the rollout\n" not in page
    assert "<summary>Trace " not in page


def test_the_frame_of_messages_that_some_libraries_record_without_content_says_nothing(tmp_path):
    call = {"type": "tool_call", "id": "c", "name": "add"}
    given = [("user", {"type": "text"}), ("user", {**call, "type": "tool_call_response"})]
    messages = {
        "gen_ai.input.messages": json.dumps([{"role": role, "parts": [part]} for role, part in given]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call]}]),
    }
    page = _rollout_page(tmp_path, {}, messages)
    assert "<summary>Trace " not in page
    assert "What was said in a call is not recorded" in page
    assert "[calls add]" not in page


@pytest.mark.parametrize(
    "broken", ["{", "7", "[7, null]", "[" * 100_000, '[{"role": 7, "parts": {}}]', '[{"parts": [{"type": "text"}]}]', 3]
)
def test_content_of_another_form_costs_no_report(tmp_path, broken):
    def fill(writer):
        attributes = {"rl.trajectories.source": "trainer", "rl.trajectories.started": 1}
        writer.event("rl.trajectories", 2.0, {"rl.rollout.id": ["1-0"]}, attributes)
        values = {**content(1, 0.0), "gen_ai.input.messages": broken, "gen_ai.output.messages": broken}
        writer.event("rl.trajectory.content", 2.0, None, values)

    assert "1 trajectory" in page_of(tmp_path, fill)


def test_a_conversation_that_is_too_long_says_how_much_is_missing():
    kept, left_out = shortened([Message("user", "x" * 2 * LONGEST)])
    assert len(kept.text) == LONGEST
    assert left_out.text == f"[{LONGEST} more characters]"
