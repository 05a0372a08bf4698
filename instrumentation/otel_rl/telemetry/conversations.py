"""The conversation that an agent is part of: the context holds its id, for the model calls below the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.context import create_key, get_value, set_value

if TYPE_CHECKING:
    from opentelemetry.context import Context

_KEY = create_key("otel_rl.conversation")


def context_with(conversation: str, context: Context) -> Context:
    """Return ``context`` as part of the conversation with this id."""
    return set_value(_KEY, conversation, context)


def current(context: Context) -> str | None:
    """Return the id of the conversation that ``context`` is part of."""
    conversation = get_value(_KEY, context)
    return conversation if isinstance(conversation, str) else None
