"""``error.type`` of an answer that reports a failure with a status of 200, as gateways and some servers do.

The server's name for the error is its code, else its type, else its number. OpenAI puts these into ``error``, vLLM and
SGLang did so into the answer itself, with ``"object": "error"`` (SGLang 0.5.23, ``create_error_response``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_rl.inference.fields import fields_of
from otel_rl.semconv.attributes import ErrorTypeValues

if TYPE_CHECKING:
    from collections.abc import Mapping

#: ``error.type`` of an answer with an error that has no name.
UNNAMED = "answer_error"
#: Statuses of answers that failed; the second is the word of gateways.
_FAILED = ("failed", "error")
#: A sentence is no name.
_NAME = re.compile(r"[A-Za-z_][\w.:-]{0,63}", re.ASCII)
_DIGITS = re.compile(r"\d{3}", re.ASCII)
#: Statuses of HTTP that mean a failure.
_STATUSES = range(400, 600)
#: Most names of servers in a process; each is a series of the metrics, and one with an id would use up their budget.
_MOST_NAMES = 32
_names: set[str] = set()


def of_answer(fields: Mapping[str, Any], extra: Mapping[str, Any], default: str = UNNAMED) -> str | None:
    """Return the failure that an answer or an event of a stream reports, also beside a result; None for no failure."""
    error = fields.get("error") or extra.get("error")
    if of_error(error) is not None:
        return name_of(error, default)
    if fields.get("object") == "error":
        return name_of({**fields, **extra}, default)
    if (fields.get("status") or extra.get("status")) in _FAILED:
        # Its type is that of the answer.
        return name_of({"code": fields.get("code") or extra.get("code")}, default)
    return None


def of_error(error: Any) -> str | None:
    """Return the failure that an ``error`` means: any text, or object that says something; None for anything else.

    Some servers put ``{"code": 0, "message": ""}`` beside a result.
    """
    if isinstance(error, str):
        return UNNAMED if error else None
    return name_of(error) if any(fields_of(error).values()) else None


def name_of(error: Any, default: str = UNNAMED) -> str:
    """Return the name of ``error``, an object or model; ``default`` where it has none."""
    fields = fields_of(error)
    for name in (fields.get("code"), fields.get("type")):
        if isinstance(name, str) and _NAME.fullmatch(name):
            return _known(name)
    code = fields.get("code")
    if isinstance(code, str) and _DIGITS.fullmatch(code):
        code = int(code)
    return str(code) if type(code) is int and code in _STATUSES else default


def _known(name: str) -> str:
    if name not in _names:
        if len(_names) >= _MOST_NAMES:
            return ErrorTypeValues.OTHER
        _names.add(name)
    return name
