"""A real program whose messages are longer than an attribute usually holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from process_support import plain

if TYPE_CHECKING:
    from process_support import Programs

PROGRAM = """
import otel_rl
asked = [{"role": "user", "content": "x" * 30000}]
with otel_rl.rollout("r"), otel_rl.llm("m", provider="engine", messages=asked) as call:
    call.answer({"choices": [{"message": {"role": "assistant", "content": "y" * 30000}, "finish_reason": "stop"}]})
"""


def test_long_messages_reach_the_files_whole_where_the_user_wants_them(programs: Programs) -> None:
    content = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY", "OTEL_RL_CONTENT_LENGTH": "40000"}
    done = programs.instrumented(PROGRAM, **content)
    assert (done.code, done.out) == (0, "")

    [call] = [
        found for span in programs.store.spans() if "gen_ai.input.messages" in (found := plain(span["attributes"]))
    ]
    [question], [answer] = json.loads(call["gen_ai.input.messages"]), json.loads(call["gen_ai.output.messages"])
    assert question["parts"][0]["content"] == "x" * 30000
    assert answer["parts"][0]["content"] == "y" * 30000
