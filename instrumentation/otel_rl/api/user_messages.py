"""Lines for the user about a mistake in the use of the producer API: each once, and few of each kind."""

from __future__ import annotations

from otel_rl.core import stderr
from otel_rl.process import process_identity
from otel_rl.telemetry.attribute_values import is_tensor, number, text

#: Most lines of one kind. Each has its own: many names with a bad value must not hide another advice.
MAXIMUM_LINES = 8
_said: dict[str, set[str]] = {}


def say_once(kind: str, line: str) -> None:
    """Write ``line`` to standard error; all processes of a run have the same code, so the leading one says it."""
    said = _said.setdefault(kind, set())
    if line in said or len(said) >= MAXIMUM_LINES:
        return
    said.add(line)
    if process_identity.current().leads:
        stderr.write_line(f"otel-rl: {line}")


def say_no_number(what: str, name: object, value: object, advice: str = "give a number") -> None:
    """Say that ``value``, given as ``what`` of this ``name``, is not recorded; of a tensor with advice of its own."""
    if is_tensor(value) and number(value) is None:
        advice = "give one element in the host's memory: reading others would wait for a device"
    kind = type(value).__qualname__
    say_once(what, f'{what} "{text(str(name), 64)}" is no number but a {kind}, and is not recorded: {advice}')


def forget() -> None:
    """Say everything again."""
    _said.clear()
