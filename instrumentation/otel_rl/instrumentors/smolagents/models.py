"""Models in this process, and those of the program: none has a client whose instrumentor knows its calls."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.api.model_calls import ModelCall
from otel_rl.inference.requests import CHAT
from otel_rl.instrumentors.followed_calls import follow
from otel_rl.telemetry import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.instrumentors.patching import Patches

scope = Scope("smolagents")
#: Classes of a program that are followed, and so stay alive. One may make a class for each of its models.
_MOST_CLASSES = 32


class _LocalCall(ModelCall):
    """A call; if an instrumented client is below it after all, that counts instead."""

    #: Tokens of the chunks so far.
    _tokens = (0, 0)

    def __init__(self, given: Mapping[str, Any]) -> None:
        model, messages = next(iter(given.values())), given.get("messages", ())
        body = {
            "messages": [{"role": str(_field(each, "role")), "content": _field(each, "content")} for each in messages]
        }
        super().__init__(model.model_id or type(model).__name__, CHAT.operation, None, body, scope)

    def result(self, value: Any) -> None:
        """Read the answer."""
        calls = [
            {"id": call.id, "function": {"name": call.function.name, "arguments": call.function.arguments}}
            for call in value.tool_calls or ()
        ]
        message = {"role": "assistant", "content": value.content, "tool_calls": calls}
        self.observe({"choices": [{"message": message}]})
        self._count(value.token_usage)

    def produced(self, item: Any) -> None:
        """Read a piece of the answer."""
        self.first_token()
        self._count(item.token_usage)

    def _count(self, usage: Any) -> None:
        if usage is not None:
            given, made = self._tokens
            self._tokens = given + usage.input_tokens, made + usage.output_tokens
            self.usage(*self._tokens, None)


def _field(message: Any, name: str) -> Any:
    value = message.get(name) if isinstance(message, dict) else getattr(message, name, None)
    return getattr(value, "value", value)


def follow_model(patches: Patches, followed_classes: set[type], _: None, agent: Any, *__: Any, **___: Any) -> None:
    """After an agent is made: follow the calls of its model, by the class that has the function."""
    clients = sys.modules["smolagents.models"].ApiModel
    if isinstance(agent.model, clients):
        return
    for name in ("generate", "generate_stream"):
        owner = next((kind for kind in type(agent.model).__mro__ if name in vars(kind)), None)
        if owner is not None and (owner in followed_classes or len(followed_classes) < _MOST_CLASSES):
            followed_classes.add(owner)
            follow(patches, owner, name, _LocalCall)
