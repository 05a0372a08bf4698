"""Content as JSON, short enough for one attribute and valid against the schemas of the GenAI conventions.

Long texts are cut before they are encoded, each at its own end. Of a long list the middle is left out: the first
messages hold the instructions, the last ones what the model was asked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_rl.telemetry import redaction
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.content_capture import content, count_dropped, longest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Record = dict[str, Any]

#: Most messages, parts of a message, or tools.
_MOST = 64
#: To this length texts are cut before records are left out, in characters.
_SHORT = 64
#: Fields of a part that have to be objects with a type.
_TYPED = ("server_tool_call", "server_tool_call_response")


def messages_as_json(messages: Sequence[Record]) -> str | None:
    """Messages as JSON, of at most :func:`longest` characters; None where a redaction lets them not pass."""
    return _as_json(messages, lambda count: {"role": "omitted", "parts": [_omitted_part(count)]})


def parts_as_json(parts: Sequence[Record]) -> str | None:
    """Return the parts of system instructions as JSON."""
    return _as_json(parts, _omitted_part)


def tools_as_json(tools: Sequence[Record]) -> str | None:
    """Tool definitions as JSON."""
    return _as_json(tools, lambda count: {"type": "omitted", "name": f"{count} tools"})


def _omitted_part(count: int) -> Record:
    return {"type": "omitted", "count": count}


def _as_json(records: Sequence[Record], omitted: Callable[[int], Record]) -> str | None:
    try:
        plain = [_plain(_with_fewer_parts(record, _MOST)) for record in _ends(records, _MOST, omitted)]
    except redaction.Dropped as dropped:
        count_dropped(dropped)
        return None
    return _encoded(plain, omitted)


def _encoded(plain: list[Record], omitted: Callable[[int], Record]) -> str:
    kept, most = _MOST, longest()
    limit = most
    lengths = list(_lengths(plain))
    while limit > _SHORT and sum(min(length, limit) for length in lengths) > most:
        limit = limit * 4 // 5
    while True:
        encoded = json.dumps([_shortened(record, limit) for record in plain], ensure_ascii=False)
        if len(encoded) <= most or limit < 1:
            return encoded
        if limit <= _SHORT and kept > 2:  # noqa: PLR2004 - the first and the last
            kept //= 2
            plain = [_with_fewer_parts(record, kept) for record in _ends(plain, kept, omitted)]
        else:
            limit = limit * 4 // 5


def _ends(records: Sequence[Record], most: int, omitted: Callable[[int], Record]) -> list[Record]:
    """Return ``records``, or the first and last of them around one that says how many are left out."""
    if len(records) <= most:
        return list(records)
    first = max(most // 4, 1)
    last = max(most - first - 1, 1)
    return [*records[:first], omitted(len(records) - first - last), *records[len(records) - last :]]


def _with_fewer_parts(record: Record, most: int) -> Record:
    parts = record.get("parts")
    if not isinstance(parts, list) or len(parts) <= most:
        return record
    return {**record, "parts": _ends(parts, most, _omitted_part)}


def _plain(record: Record) -> Record:
    """``record`` of plain types, its parts one by one: each is bounded, and none is lost for the length of another."""
    shortened: Record = content({key: value for key, value in record.items() if key != "parts"})
    if "parts" in record:
        shortened["parts"] = [content(part) for part in record["parts"]]
    return shortened


def _lengths(value: Any) -> Iterator[int]:
    """Lengths of the texts in ``value``."""
    if isinstance(value, str):
        yield len(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _lengths(item)
    elif isinstance(value, list):
        for item in value:
            yield from _lengths(item)


def _shortened(record: Record, limit: int) -> Record:
    """``record`` with every text cut to ``limit``."""
    shortened: Record = {}
    for key, value in record.items():
        if key == "parts":
            shortened[key] = [_shortened(part, limit) for part in value]
        elif isinstance(value, str):
            shortened[key] = value if len(value) <= limit else _cut(record, key, value, limit)
        elif isinstance(value, dict | list):
            _add_nested(shortened, key, value, limit)
        else:
            shortened[key] = value
    if record.get("type") == "blob":
        data = record.get("content")
        if isinstance(data, str) and len(data) > limit:
            shortened["byte_size"] = len(data) * 3 // 4
    return shortened


def _cut(record: Record, key: str, value: str, limit: int) -> str:
    if key == "content" and record.get("type") == "blob":
        # A part of encoded data decodes to nothing.
        return ""
    # The kind and the name of a part or tool are distinguished by their whole text.
    return text(value, max(limit, _SHORT) if key in ("type", "role") else limit)


def _add_nested(shortened: Record, key: str, value: Any, limit: int) -> None:
    """Arguments and results may be any value, so long ones become their text; what has to be an object loses items."""
    encoded = json.dumps(value, ensure_ascii=False)
    if len(encoded) <= limit:
        shortened[key] = value
    elif key in _TYPED:
        shortened[key] = {"type": value.get("type")}
    elif key != "parameters":
        shortened[key] = text(encoded, limit)
