"""Captures prompts, completions, tool arguments and results: only when the user enables it, always as valid JSON."""

from __future__ import annotations

import json
import os

from otel_rl.telemetry import drops, redaction
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH, plain_content, text

CAPTURE_ENVIRONMENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SPAN_VALUES = frozenset({"SPAN_ONLY", "SPAN_AND_EVENT", "TRUE"})


def capture_content() -> bool:
    """True when content may be put on spans (SPAN_ONLY or SPAN_AND_EVENT; ``true`` as older packages spell it)."""
    return os.environ.get(CAPTURE_ENVIRONMENT_VARIABLE, "").strip().upper() in _SPAN_VALUES


def content_as_json(value: object, signal: str = "traces") -> str | None:
    """Content as a JSON string, the form that the GenAI conventions prescribe for span attributes.

    The user's redaction function sees each whole text first; None means that it let the content not pass, which is
    counted for ``signal``. Then long parts are cut, before they are encoded: the result is valid JSON and at most
    :data:`~otel_rl.telemetry.attribute_values.MAXIMUM_LENGTH` characters long.
    """
    try:
        shortened = plain_content(value, redaction.redact())
    except redaction.Dropped as dropped:
        drops.count(signal, str(dropped))
        return None
    encoded = json.dumps(shortened, ensure_ascii=False)
    limit = MAXIMUM_LENGTH
    # Escapes (quotes, control characters) make the encoded text longer than its parts.
    while len(encoded) > MAXIMUM_LENGTH and limit > 1:
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
