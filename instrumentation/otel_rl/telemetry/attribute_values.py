"""Values as they may leave the process: plain types, valid Unicode, bounded length.

The encoders refuse a whole batch for one lone surrogate or one unknown type. :func:`clean` and :func:`plain` make such
values harmless. They never read a tensor that lives on a device: that would wait for the device.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.core import settings
from otel_rl.core.guard import raised_by_signal_handler
from otel_rl.semconv import attributes as names
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Longest string attribute in characters: everything we record is bounded. The marker says how much was there.
MAXIMUM_LENGTH = 8192
#: Most attributes of one span or log record: the SDK's own limit, beyond which it writes to the program's log.
MAXIMUM_ATTRIBUTES = 128
#: Bounds of one nested value: levels, and items of all levels together.
MAXIMUM_DEPTH = 8
MAXIMUM_ITEMS = 1024
#: Longest key in one, in characters.
MAXIMUM_KEY_LENGTH = 256
#: OTLP carries integers of 64 bit.
_INTEGER_LIMIT = 1 << 63
#: End of a text that has been cut.
_MARKER = re.compile(r"\.\.\. \[truncated, \d+ characters\]\Z")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: Values that the message schemas of the GenAI conventions fix: a redaction function has nothing to do there.
_STRUCTURE = frozenset(
    {
        *("system", "developer", "user", "assistant", "tool"),
        *("text", "reasoning", "tool_call", "tool_call_response", "function", "blob", "file", "uri"),
        *("stop", "length", "content_filter", "tool_calls", "error"),
    }
)
#: Names of fields in these schemas, in events of messages and in the calls of tools, likewise.
_FIELDS = frozenset(
    {
        *("role", "parts", "finish_reason", "name", "type", "content", "id", "arguments", "response", "count"),
        *("modality", "mime_type", "file_id", "uri", "server_tool_call", "server_tool_call_response"),
        *("description", "parameters", "message", "messages", "index", "tool_calls", "function"),
        *("args", "kwargs"),
    }
)
#: First part of the module of classes whose instances can be large or live on a device: their ``str`` is not asked for.
_TENSOR_LIBRARIES = frozenset({"cupy", "jax", "jaxlib", "mlx", "numpy", "tensorflow", "torch"})
#: Libraries whose truth values run no code of the program.
_TRUTH_LIBRARIES = frozenset({"builtins", "datetime", "decimal", "enum", "fractions"})
#: Classes whose instances run no code of the program.
_BUILT_IN = frozenset({type(None), bool, int, float, str, dict, list, tuple})


#: Attributes with captured content, whose length the user sets.
_CONTENT = frozenset(
    {
        names.GEN_AI_INPUT_MESSAGES,
        names.GEN_AI_OUTPUT_MESSAGES,
        names.GEN_AI_SYSTEM_INSTRUCTIONS,
        names.GEN_AI_TOOL_DEFINITIONS,
        names.GEN_AI_TOOL_CALL_ARGUMENTS,
        names.GEN_AI_TOOL_CALL_RESULT,
        names.RL_ROLLOUT_INPUT,
        names.RL_ROLLOUT_OUTPUT,
        names.RL_REWARD_INPUT,
        names.RL_REWARD_OUTPUT,
    }
)


def truncate(text: str, limit: int = MAXIMUM_LENGTH, whole: int | None = None) -> str:
    """Cut ``text`` to ``limit`` characters and say so at its end; ``whole`` is its length where less of it is known.

    A text that has been cut before keeps the length that it had at first.
    """
    length = whole or len(text)
    if length <= limit:
        return text
    before = _MARKER.search(text, max(len(text) - 64, 0))
    marker = before.group() if before else f"... [truncated, {length} characters]"
    return text[: max(limit - len(marker), 0)] + marker


def text(value: str, limit: int = MAXIMUM_LENGTH) -> str:
    """``value`` as valid Unicode without NUL, of at most ``limit`` characters."""
    if type(value) is not str:
        value = str.__str__(value)
    if len(value) > limit:
        value = truncate(value, limit)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            # Two halves of one character, as JSON writes them, become that character.
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value.replace("\0", _REPLACEMENT) if "\0" in value else value


def longest(key: object) -> int:
    """Return the most characters of a text that attribute ``key`` has."""
    return settings.current().content_length if key in _CONTENT else MAXIMUM_LENGTH


def clean(attributes: Mapping[str, Any] | None, signal: str = "traces") -> dict[str, Any]:
    """Attributes of a span or log record: None values are left out, all others made plain, valid and short."""
    if not attributes:
        return {}
    cleaned: dict[str, Any] = {}
    for key, value in attributes.items():
        if value is None:
            continue
        kind = type(value)
        # The common cases first: they cost a tenth of the others.
        if kind is str:
            if len(value) > MAXIMUM_LENGTH or not value.isascii() or "\0" in value:
                value = text(value, longest(key))  # noqa: PLW2901 - as it may leave
        elif kind is not bool and kind is not float:
            value = plain(value)  # noqa: PLW2901 - as it may leave
        if type(key) is not str or not key.isascii():
            key = _key(key)  # noqa: PLW2901 - as it may leave
        cleaned[key] = value
    if "" in cleaned or len(cleaned) > MAXIMUM_ATTRIBUTES:
        cleaned = _bounded(cleaned, signal)
    return cleaned


def _bounded(cleaned: dict[str, Any], signal: str) -> dict[str, Any]:
    """Remove attributes that the SDK would refuse with a line in the program's log."""
    if "" in cleaned:
        del cleaned[""]
        drops.count(signal, "invalid_key")
    drops.count(signal, "attribute_limit", len(cleaned) - MAXIMUM_ATTRIBUTES)
    return dict(islice(cleaned.items(), MAXIMUM_ATTRIBUTES))


def _key(key: object) -> str:
    plain_key = plain(key)
    return plain_key if isinstance(plain_key, str) else str(plain_key)


def plain(value: Any) -> Any:
    """``value`` of plain types only: None, bool, int of 64 bit, float, text, and lists and mappings of these."""
    if type(value) is int and -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        return value
    return _Plain().of(value, MAXIMUM_DEPTH)


def plain_content(value: Any, characters: int = MAXIMUM_LENGTH, redact: Callable[[str], str] | None = None) -> Any:
    """Like :func:`plain`, short enough that its JSON text is about ``characters`` long.

    ``redact`` gets each text, number and key of a mapping whole, before it is cut. :data:`_STRUCTURE` and
    :data:`_FIELDS` are no content. What it raises passes.
    """
    return _Plain(characters, redact).of(value, MAXIMUM_DEPTH)


class PlainBody(dict[str, Any]):
    """A body of a log record whose maker has made every value plain, valid and short, and bounded their number."""

    #: Characters as JSON, about; what has thousands of them fills a batch sooner.
    characters = 0


class _Pairs(list[tuple[Any, Any]]):
    """Keys and values of a mapping."""


class _Items(NamedTuple):
    """The first items of a sequence or set, at least as many as may be taken, and how many there are."""

    first: Sequence[Any]
    length: int


class _Plain:
    """Makes one value plain; counts what it has taken, so that a nested value stays bounded as a whole."""

    __slots__ = ("_characters", "_items", "_redact")

    def __init__(self, characters: int | None = None, redact: Callable[[str], str] | None = None) -> None:
        self._items = MAXIMUM_ITEMS
        self._characters = characters
        self._redact = redact

    def of(self, value: Any, depth: int) -> Any:
        if type(value) not in _BUILT_IN:
            value = _taken(value, is_whole=self._redact is not None)
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None or kind is bool:
            return value
        if kind is not int and kind is not float:
            return self._nested(value, depth)
        if kind is float and self._characters is not None and not math.isfinite(value):
            # JSON knows no NaN and no infinity.
            return str(value)
        if self._redact is not None:
            value = self._number(value, self._redact)
        return self._integer(value) if type(value) is int else value

    def _nested(self, value: Any, depth: int) -> dict[str, Any] | list[Any] | str:
        kind = type(value)
        if not depth:
            return "{...}" if kind is dict or kind is _Pairs else "[...]"
        if kind is dict:
            return self._mapping(_Pairs(value.items()), depth)
        if kind is _Pairs:
            return self._mapping(value, depth)
        return self._sequence(value if kind is _Items else _Items(value, len(value)), depth)

    def _number(self, value: float, redact: Callable[[str], str]) -> float | str:
        # A card or telephone number may be one. Python writes no decimal number of more than 4,300 digits.
        written = hex(value) if isinstance(value, int) and abs(value) >= _INTEGER_LIMIT else str(value)
        redacted = redact(written)
        return value if redacted == written else self._cut(redacted)

    def _text(self, value: str) -> str:
        if self._redact is not None and value not in _STRUCTURE:
            value = self._redact(value)
        return self._cut(value)

    def _cut(self, value: str) -> str:
        if self._characters is None:
            return text(value)
        cleaned = text(value, max(self._characters, 64))
        self._characters -= len(cleaned)
        return cleaned

    @staticmethod
    def _integer(value: int) -> int | str:
        if -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
            return value
        # A decimal number of more than 4,300 digits would raise (sys.set_int_max_str_digits).
        return text(hex(value))

    def _full(self, length: int) -> bool:
        self._items -= 1
        if self._characters is not None:
            # Quotes, commas and keys take room too.
            self._characters -= length
        return self._items < 0 or (self._characters is not None and self._characters <= 0)

    def _mapping(self, pairs: _Pairs, depth: int) -> dict[str, Any]:
        plain_pairs: dict[str, Any] = {}
        is_simple = self._characters is None and self._redact is None
        for taken, (key, item) in enumerate(pairs):
            if is_simple and _is_plain_key(key):
                name = key
            else:
                name = text(
                    _key(key) if self._redact is None else self._redacted_key(key, depth, self._redact),
                    MAXIMUM_KEY_LENGTH,
                )
            if name in plain_pairs:
                # Two keys that have become one: both values stay.
                name = f"{name} ({taken + 1})"
            if self._full(len(name) + 6):
                plain_pairs["..."] = f"[{len(pairs) - taken} more]"
                break
            # The common case, for the many numbers of a trainer's log call.
            plain_pairs[name] = item if is_simple and type(item) is float else self.of(item, depth - 1)
        return plain_pairs

    def _redacted_key(self, key: Any, depth: int, redact: Callable[[str], str]) -> str:
        if isinstance(key, enum.Enum):
            key = key.value
        if isinstance(key, str):
            return key if key in _FIELDS else redact(key)
        plain_key = self.of(key, depth)
        return plain_key if isinstance(plain_key, str) else str(plain_key)

    def _sequence(self, items: _Items, depth: int) -> list[Any]:
        plain_items: list[Any] = []
        for item in items.first:
            if self._full(4):
                plain_items.append(f"[{items.length - len(plain_items)} more]")
                break
            plain_items.append(self.of(item, depth - 1))
        return plain_items


def _is_plain_key(key: Any) -> bool:
    """Return whether nothing has to be done to a key, as to most."""
    return type(key) is str and len(key) <= MAXIMUM_KEY_LENGTH and key.isascii() and "\0" not in key


def _taken(value: Any, *, is_whole: bool) -> Any:
    """Return what is recorded of ``value``: a built-in instance, pairs or items; its class where that raises.

    Of bytes the first ones are enough, unless the ``is_whole`` text is asked for.
    """
    try:
        if issubclass(type(value), enum.Enum):
            value = value.value
        # Of the class itself: a stand-in says that it is of another one.
        kind = type(value)
        if kind in _BUILT_IN:
            return value
        if issubclass(kind, str):
            return str.__str__(value)
        if issubclass(kind, int):
            return int.__int__(value)
        if issubclass(kind, bytes | bytearray | memoryview):
            return bytes(value if is_whole else value[: MAXIMUM_LENGTH + 1]).decode(errors="replace")
        for read in _readers():
            taken = read(value)
            if taken is not None:
                return taken
    except Exception as error:
        # Code of the program runs here.
        if raised_by_signal_handler(error):
            raise
    # Without a question to its metaclass.
    return f"<{type.__dict__['__qualname__'].__get__(type(value))}>"


@cache
def _readers() -> tuple[Callable[[Any], Any], ...]:
    """Return the functions that may know the value of an object."""
    from otel_rl.telemetry import object_values  # noqa: PLC0415 - few processes record other objects

    return _nested, number, object_values.fields_of, _tensor, object_values.text_of


def _nested(value: Any) -> _Pairs | _Items | None:
    if isinstance(value, Mapping):
        return _Pairs((key, item) for key, item in value.items())
    if isinstance(value, list | tuple | AbstractSet):
        return _Items(list(islice(value, MAXIMUM_ITEMS + 1)), len(value))
    return None


def _library_of(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def is_tensor(value: object) -> bool:
    """Return whether ``value`` is an array or tensor."""
    return _library_of(type(value)) in _TENSOR_LIBRARIES


def _tensor(value: Any) -> str | None:
    """Type and shape of an array or tensor, without a look at its elements; None for anything else."""
    if not is_tensor(value):
        return None
    known = {name: getattr(value, name, None) for name in ("shape", "dtype", "device")}
    described = " ".join(f"{name}={detail}" for name, detail in known.items() if detail is not None)
    return f"<{type(value).__name__} {described}>" if described else f"<{type(value).__name__}>"


def number(value: Any) -> float | int | None:
    """Return ``value`` as a number: of Python, NumPy, or a tensor of one element in the host's memory; else None.

    A tensor on a device is None: reading it would wait for the device.
    """
    if type(value) is float or type(value) is int:
        return value
    import numbers  # noqa: PLC0415 - a process that records nothing needs it not

    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if not _holds_one_element(value):
        return None
    scalar = value.item()
    return scalar if isinstance(scalar, int | float) else None


def truth(value: Any) -> bool | None:
    """Return the truth value of ``value``; None where the program's code or a device would have to compute it."""
    # As Python looks for it: not at the metaclass, which that of enumerations would be.
    for name in ("__bool__", "__len__"):
        says = next((base for base in type(value).__mro__ if name in vars(base)), None)
        if says is not None:
            if _library_of(says) in _TRUTH_LIBRARIES:
                return bool(value)
            as_number = number(value)
            return None if as_number is None else bool(as_number)
    return True


def numbers_of(value: Any, most: int) -> list[Any] | None:
    """Return the first elements of an array or tensor of one dimension in the host's memory; None for anything else."""
    if not _is_in_memory(value) or len(getattr(value, "shape", ())) != 1:
        return None
    try:
        numbers: list[Any] = value[:most].tolist()
    except RuntimeError:
        # A sparse tensor, or one inside of `torch.vmap`.
        return None
    return numbers


def _holds_one_element(value: Any) -> bool:
    # The library first: an attribute of the program's own objects may compute, or ask another process.
    return _is_in_memory(value) and getattr(value, "shape", None) in ((), (1,))


def _is_in_memory(value: Any) -> bool:
    library = _library_of(type(value))
    # Subclasses of tensors stand for elements that are elsewhere, or nowhere.
    return library == "numpy" or (
        library == "torch" and type(value).__name__ in ("Tensor", "Parameter") and value.device.type == "cpu"
    )


def score(value: Any) -> float | None:
    """Return a reward that something other than the producer API holds: a finite real number, but no truth value."""
    import numbers  # noqa: PLC0415 - as in number()

    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    as_float = float(value)
    return as_float if math.isfinite(as_float) else None


#: How work is given up by asyncio, concurrent.futures and trio, by who leaves a generator, and by Ctrl-C: no failure.
CANCELLATIONS = frozenset({"CancelledError", "Cancelled", "GeneratorExit", "KeyboardInterrupt", "cancelled"})


def is_cancellation(kind: str) -> bool:
    """Return whether the name of an exception's class, or an ``error.type``, stands for a cancellation."""
    return kind.rpartition(".")[2] in CANCELLATIONS


def error_type(error: BaseException) -> str:
    """Value of ``error.type`` for an exception: its qualified class name, as the semantic conventions ask."""
    kind = type(error)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
