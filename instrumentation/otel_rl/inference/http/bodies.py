"""What the bodies of a request and of its answer are, without reading what is long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def is_json(headers: Mapping[str, str] | None) -> bool:
    """Return whether the headers of a request announce JSON, which those that are not known may."""
    if headers is None:
        return True
    kinds = (value for name, value in headers.items() if name.lower() == "content-type")
    return any(isinstance(kind, str) and "json" in kind.lower() for kind in kinds)


def parsed(chunk: bytes | str) -> Any:
    """Return the value of JSON; None for anything else."""
    try:
        return json.loads(chunk)
    except (ValueError, RecursionError):
        return None
