"""``error.type`` as a program gives it to ``fail``: a short name. A text would be a series of the metrics for each."""

from __future__ import annotations

import re

from otel_rl.api.user_messages import say_once
from otel_rl.semconv.attributes import ErrorTypeValues

#: Words, numbers and what stands between them.
_NAME = re.compile(r"[\w-][\w .:/-]{0,63}")
#: Most names of a process: further ones would leave no room for the classes of exceptions.
_MOST = 32
_names: set[str] = set()


def name_of(given: object) -> str:
    """Return the name that ``given`` is; ``_OTHER``, with a line for the user, for a text or one name too many."""
    name = str(given)
    if name in _names:
        return name
    if _NAME.fullmatch(name) and len(_names) < _MOST:
        _names.add(name)
        return name
    say_once(
        "fail", 'a failure without a short name, or one of too many names, is "_OTHER": give one such as "timeout"'
    )
    return ErrorTypeValues.OTHER


def forget() -> None:
    """As if no name had been given."""
    _names.clear()
