"""What goes into a call of a rollout or reward function, and what comes out: content, on the span of the call.

It is recorded where the user asks for content on spans, and not looked at elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.telemetry.attribute_values import plain_content
from otel_rl.telemetry.content_capture import (
    as_json,
    capture_content,
    content,
    content_as_json,
    count_dropped,
    longest,
)
from otel_rl.telemetry.redaction import Dropped

if TYPE_CHECKING:
    from opentelemetry.trace import Span

#: Items of a generator that stand for its result, where it returns none.
MOST_ITEMS = 64


def captured(value: Any) -> str | None:
    """``value`` as JSON; None where it is not wanted, or where there is none."""
    with guard("producer.content"):
        return content_as_json(value) if value is not None and capture_content() else None
    # Code of the program has failed: the call is recorded without its content.
    return None


class Result:
    """The result of one call. Of a generator that returns nothing it is the list of its first items."""

    __slots__ = ("_has_value", "_items", "_key", "_span")

    def __init__(self, span: Span, key: str) -> None:
        self._span = span
        self._key = key
        self._has_value = False
        self._items: list[Any] | None = None

    def take(self, value: Any) -> None:
        """Keep what the call has returned."""
        if capture_content() and self._span.is_recording():
            self._has_value = True
            self._record(value)

    def add(self, item: Any) -> None:
        """Keep what a generator has made: it becomes plain at once, as the program may change or free it."""
        if not capture_content() or not self._span.is_recording():
            return
        if self._items is None:
            self._items = []
        if len(self._items) < MOST_ITEMS:
            try:
                self._items.append(plain_content(content(item), longest()))
            except Dropped as dropped:
                count_dropped(dropped)

    def finish(self) -> None:
        """End the call: record the items, where nothing else stands for the result."""
        items, self._items = self._items, None
        if items and not self._has_value:
            with guard("producer.result"):
                self._record(items, is_plain=True)

    def _record(self, value: Any, *, is_plain: bool = False) -> None:
        encoded = as_json(plain_content(value, longest())) if is_plain else content_as_json(value)
        if encoded is not None:
            self._span.set_attribute(self._key, encoded)
