"""What the bodies of a request and of its answer are, without reading what is long."""

from __future__ import annotations

import json
from typing import Any

#: Longest body that is parsed, in bytes, where the client was given text and not the object.
LONGEST_BODY = 32_768
_EVENTS = "text/event-stream"


def object_of(body: Any) -> dict[str, Any]:
    """Return the object that a request sends; empty where that is not known."""
    if isinstance(body, bytes | str) and len(body) <= LONGEST_BODY:
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return {}
    return body if isinstance(body, dict) else {}


def has_events(response: object) -> bool:
    """Return whether the head of an answer announces a stream of events; names of headers match in any case."""
    get = getattr(getattr(response, "headers", None), "get", None)
    kind = None if get is None else get("content-type")
    return isinstance(kind, str) and kind.lower().startswith(_EVENTS)


def parsed(chunk: bytes | str) -> Any:
    """Return the value of JSON; None for anything else."""
    try:
        return json.loads(chunk)
    except (ValueError, RecursionError):
        return None
