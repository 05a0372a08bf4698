"""Captures prompts, completions, tool arguments and results: only when the user enables it, always as valid JSON.

Everything that is captured goes through :func:`content` first.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from otel_rl.core import settings
from otel_rl.telemetry import drops, redaction
from otel_rl.telemetry.attribute_values import plain_content, text

CAPTURE_ENVIRONMENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
#: Its name as ``os.environ`` keeps it.
_KEY = os.environ.encodekey(CAPTURE_ENVIRONMENT_VARIABLE)
#: Bounds the work on one value, in characters.
LONGEST = 65536


class Capture(NamedTuple):
    """Where content may go: on the span of the call, on an event of its own."""

    span: bool
    event: bool


_NOWHERE = Capture(span=False, event=False)
_MODES = {
    "SPAN_ONLY": Capture(span=True, event=False),
    "EVENT_ONLY": Capture(span=False, event=True),
    "SPAN_AND_EVENT": Capture(span=True, event=True),
    # As older packages spell it.
    "TRUE": Capture(span=True, event=False),
}


def capture() -> Capture:
    """Where the user wants content: the environment variable is read at each call, as programs set it late."""
    # For a variable that is not set, `get` raises and catches two exceptions: 3 µs of a model call that takes us 100.
    # So the table below is asked first, where there is one (`os._Environ._data`, CPython 3.10 to 3.14).
    table = getattr(os.environ, "_data", None)
    if table is not None and _KEY not in table:
        return _NOWHERE
    wanted = os.environ.get(CAPTURE_ENVIRONMENT_VARIABLE)
    return _MODES.get(wanted.strip().upper(), _NOWHERE) if wanted else _NOWHERE


def capture_content() -> bool:
    """Return whether content may be put on spans."""
    return capture().span


def longest() -> int:
    """Return the most characters of one attribute with content."""
    return settings.current().content_length


def content(value: object) -> Any:
    """Content of plain types: all captured content goes through here, whole, before it is cut and encoded.

    The user's redaction function sees each whole text first. Then a value of more than 65,536 characters is cut.

    Raises:
        redaction.Dropped: that function let the content not pass; see :func:`count_dropped`.
    """
    return plain_content(value, LONGEST, redaction.redact())


def count_dropped(dropped: redaction.Dropped, signal: str = "traces") -> None:
    """Count content that the user's redaction function let not pass."""
    drops.count(signal, str(dropped))


def content_as_json(value: object, signal: str = "traces") -> str | None:
    """Content as a JSON string, the form that the GenAI conventions prescribe for span attributes.

    None means that the user's redaction function let the content not pass, which is counted for ``signal``. Long parts
    are cut before they are encoded: the result is valid JSON and at most :func:`longest` characters long.
    """
    try:
        shortened = plain_content(content(value), longest())
    except redaction.Dropped as dropped:
        count_dropped(dropped, signal)
        return None
    return as_json(shortened)


def as_json(shortened: object) -> str:
    """Encode content that :func:`content` has let pass and ``plain_content`` has shortened."""
    encoded = json.dumps(shortened, ensure_ascii=False)
    most = limit = longest()
    # Escapes (quotes, control characters) make the encoded text longer than its parts.
    while len(encoded) > most and limit > 1:
        limit //= 2
        encoded = json.dumps(_cut(shortened, limit), ensure_ascii=False)
    return encoded


def _cut(value: object, limit: int) -> object:
    """``value`` with every string, list and mapping cut to ``limit``."""
    if isinstance(value, str):
        return text(value, limit)
    if isinstance(value, list):
        return [_cut(item, limit) for item in value[:limit]]
    if isinstance(value, dict):
        return {text(key, limit): _cut(item, limit) for key, item in list(value.items())[:limit]}
    return value
