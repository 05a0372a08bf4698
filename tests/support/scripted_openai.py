"""The fake server of OpenAI's protocol as a model that calls the tools which its prompt names.

A plan begins with "do": ``"do add bad, add"`` asks for ``add`` and ``bad`` at once, then for ``add``, then answers
"done", as any other prompt is answered.
"""

from __future__ import annotations

import json
from typing import Any

from support.fake_openai import CHAT, FakeOpenAI

#: Of each answer.
INPUT_TOKENS, OUTPUT_TOKENS = 11, 7
_USAGE = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": 18}


def tools_asked(prompt: str, turns_before: int) -> list[str]:
    """The tools that the plan has for a turn."""
    turns = [turn.split() for turn in prompt[3:].split(",")] if prompt.startswith("do ") else []
    return turns[turns_before] if turns_before < len(turns) else []


def text_of(content: Any) -> str:
    """The text of a message."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _is_prompt(message: dict[str, Any]) -> bool:
    """Whether the user says it; smolagents lets the user say what a tool returned."""
    return message["role"] == "user" and not text_of(message["content"]).startswith("Observation:")


def _plan(prompt: str) -> str:
    """Without what smolagents and a swarm of Strands put around it."""
    return prompt.removeprefix("New task:\n").removeprefix("Context:\nUser Request: ").partition("\n")[0]


class ScriptedOpenAI(FakeOpenAI):
    """Follows the plan in the last message of the user; ``arguments`` are those of each tool by its name."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments

    @property
    def body(self) -> dict[str, Any]:  # type: ignore[override]
        """The answer to the newest request."""
        tools = self._tools()
        message: dict[str, Any] = {"role": "assistant", "content": None if tools else "done"}
        if tools:
            message["tool_calls"] = tools
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}
        return {**CHAT, "choices": [choice], "usage": _USAGE}

    @body.setter
    def body(self, _: object) -> None:
        """Nothing: the plan decides."""

    @property
    def chunks(self) -> list[Any]:  # type: ignore[override]
        """The same, streamed."""
        choice = self.body["choices"][0]
        calls = [{"index": index, **call} for index, call in enumerate(choice["message"].get("tool_calls", ()))]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": choice["message"]["content"]}]
        deltas += [{"tool_calls": [call]} for call in calls]
        head = {**CHAT, "object": "chat.completion.chunk"}
        del head["usage"]
        found = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        found.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
        return [*found, {**head, "choices": [], "usage": _USAGE}]

    @chunks.setter
    def chunks(self, _: object) -> None:
        """Nothing: the plan decides."""

    def _tools(self) -> list[dict[str, Any]]:
        messages = self.requests[-1][2]["messages"]
        prompts = {index: text_of(message["content"]) for index, message in enumerate(messages) if _is_prompt(message)}
        last = max(prompts)
        before = sum(message["role"] == "assistant" for message in messages[last:])
        names = tools_asked(_plan(prompts[last]), before)
        return [self._call(name, f"call_{before}_{index}") for index, name in enumerate(names)]

    def _call(self, name: str, identifier: str) -> dict[str, Any]:
        arguments = json.dumps(self._arguments.get(name, {}))
        return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
