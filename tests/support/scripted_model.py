"""A model of the OpenAI protocol that follows a script, and what a run of an agent left, as text."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from support import fake_openai

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.sdk.trace import ReadableSpan

#: Tokens of each answer.
GIVEN, MADE = fake_openai.USAGE["prompt_tokens"], fake_openai.USAGE["completion_tokens"]


#: A model that says this waits until the server is released.
WAIT = "WAIT"


class ScriptedModel(fake_openai.FakeOpenAI):
    """Answers a model's n-th turn, counted by the assistant's messages, with the n-th line of its script, or the last.

    A line is a text, or the tools that the model asks for with their arguments.
    """

    def __init__(self, scripts: dict[str, list[Any]]) -> None:
        super().__init__()
        self.RequestHandlerClass = _Handler
        self.scripts = scripts
        self.numbers = count()
        #: The turns are the requests since `requests` was emptied: libraries may join or leave out messages.
        self.counts_requests = False


class _Handler(fake_openai.Handler):
    server: ScriptedModel
    _own: list[Any]

    def do_POST(self) -> None:  # noqa: N802 - its name
        with suppress(ConnectionError):  # the program has gone
            self._follow_script()

    def _follow_script(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        script = self.server.scripts.get(body["model"])
        if script is None:
            self._answer(404, {"error": {"message": "no such model", "code": 404}})
            return
        if self.server.counts_requests:
            done = sum(each["model"] == body["model"] for _, _, each in self.server.requests) - 1
        else:
            done = sum(message["role"] == "assistant" for message in body["messages"])
        # Ids of calls are their own, as a real model's are: agents of one trajectory may ask at the same time.
        message = _message(script[min(done, len(script) - 1)], next(self.server.numbers))
        if message.get("content") == WAIT:
            self.server.slow_request_seen.set()
            self.server.release.wait(10)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        common = {"id": f"chatcmpl-{len(self.server.requests)}", "created": 1, "model": body["model"]}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            answer = {**common, "object": "chat.completion", "choices": [choice], "usage": fake_openai.USAGE}
            self._answer(200, answer)
            return
        chunk = {**common, "object": "chat.completion.chunk"}
        calls = message.pop("tool_calls", [])
        deltas = [message, *({"tool_calls": [{**call, "index": place}]} for place, call in enumerate(calls))]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
        self._own = [{**chunk, "choices": [choice]} for choice in choices]
        self._own.append({**chunk, "choices": [], "usage": fake_openai.USAGE})
        self._stream(body)

    def _chunks(self, _: dict[str, Any]) -> list[Any]:
        return self._own


def _message(turn: Any, number: int) -> dict[str, Any]:
    if isinstance(turn, str):
        return {"role": "assistant", "content": turn}
    calls = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": tool, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)},
        }
        for place, (tool, arguments) in enumerate(turn)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def tree(spans: Iterable[ReadableSpan]) -> list[str]:
    """The names of spans, indented below their parents, in the order in which they began; failures after the names."""
    spans = sorted(spans, key=lambda span: (span.start_time, span.name))
    known = {span.context.span_id for span in spans}
    lines: list[str] = []

    def add(span: ReadableSpan, depth: int) -> None:
        failure = (span.attributes or {}).get("error.type")
        lines.append(". " * depth + span.name + (f" ({failure})" if failure else ""))
        for child in spans:
            if child.parent is not None and child.parent.span_id == span.context.span_id:
                add(child, depth + 1)

    for span in spans:
        if span.parent is None or span.parent.span_id not in known:
            add(span, 0)
    return lines


_COLUMNS = ("turns", "model_calls", "tool_model_calls", "tool_calls", "tool_errors", "status")
_TOKENS = ("model_errors", "input_tokens", "output_tokens")


def rows(recorded: Any) -> list[tuple[Any, ...]]:
    """Turns, calls of the model, those inside of tools, calls and errors of tools, and status of each trajectory.

    The tokens are compared here: each answer has the same.
    """
    from otel_rl.telemetry import deferral
    from otel_rl.training import trajectories

    deferral.drain_all()
    trajectories.record()
    deferral.drain_all()
    found = []
    for record in recorded.events("rl.trajectories"):
        columns = {name.removeprefix("rl.rollout."): values for name, values in record.body.items()}
        for number in range(len(columns["status"])):
            row = {name: columns[name][number] if name in columns else None for name in (*_COLUMNS, *_TOKENS)}
            answered = (row["model_calls"] or 0) - (row["model_errors"] or 0)
            assert (row["input_tokens"] or 0, row["output_tokens"] or 0) == (GIVEN * answered, MADE * answered), row
            found.append(tuple(row[name] or 0 for name in _COLUMNS))
    return found
