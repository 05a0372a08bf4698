"""Whether prompts, completions, tool arguments and results may be recorded: only when the user says so."""

from __future__ import annotations

import json
import os

CAPTURE_ENVIRONMENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SPAN_VALUES = frozenset({"SPAN_ONLY", "SPAN_AND_EVENT", "TRUE"})


def capture_content() -> bool:
    """True when content may be put on spans (SPAN_ONLY or SPAN_AND_EVENT; ``true`` as older packages spell it)."""
    return os.environ.get(CAPTURE_ENVIRONMENT_VARIABLE, "").strip().upper() in _SPAN_VALUES


def content_as_json(value: object) -> str:
    """Content as a JSON string, the form that the GenAI conventions prescribe for span attributes."""
    return json.dumps(value, ensure_ascii=False, default=str)
