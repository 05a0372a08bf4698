"""Messages of an attribute that a length limit has cut off: no JSON any more, but read as far as it goes."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

_BETWEEN = re.compile(r"[\s,]*")
#: An escape in a text that was cut in its middle.
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
#: What ends a message that was cut in a text, behind one, behind a part, and behind its parts.
_ENDINGS = ('"}]}', "}]}", "]}", "}")


def read(encoded: str) -> tuple[list[Any], Any] | None:
    """Return the whole messages and what there is of the one that was cut (else None); None for what is no list."""
    if not encoded.startswith("[{"):
        return None
    decoder, whole, place = json.JSONDecoder(), [], 1
    try:
        while (place := _BETWEEN.match(encoded, place).end()) < len(encoded):  # type: ignore[union-attr] # matches ""
            message, place = decoder.raw_decode(encoded, place)
            whole.append(message)
    except ValueError:
        return whole, _mended(encoded[place:])
    except RecursionError:
        return whole, None
    return whole, None


def _mended(piece: str) -> Any:
    """Return a message that was cut as one without its end; None where too little of it is there."""
    texts = (piece, _HALF_ESCAPE.sub("", piece))
    ended = (_decoded(text + ending) for text in texts for ending in _ENDINGS)
    return next((message for message in ended if message is not None), None)


def _decoded(text: str) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return None
