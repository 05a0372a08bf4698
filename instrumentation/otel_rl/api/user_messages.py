"""Lines for the user about a mistake in the use of the producer API: each once, and few of them."""

from __future__ import annotations

from otel_rl import stderr
from otel_rl.process import process_identity
from otel_rl.telemetry.attribute_values import is_tensor, text

#: Most lines of a process.
_MOST = 8
_said: set[str] = set()


def say_once(line: str) -> None:
    """Write ``line`` to standard error; all processes of a run have the same code, so the leading one says it."""
    if line in _said or len(_said) >= _MOST:
        return
    _said.add(line)
    if process_identity.current().leads:
        stderr.write_line(f"otel-rl: {line}")


def say_no_number(what: str, name: object, value: object, advice: str = "give a number") -> None:
    """Say that ``value``, given as ``what`` of this ``name``, is not recorded; of a tensor with advice of its own."""
    if is_tensor(value):
        advice = "give one element in the host's memory: reading others would wait for a device"
    kind = type(value).__qualname__
    say_once(f'{what} "{text(str(name), 64)}" is no number but a {kind}, and is not recorded: {advice}')


def forget() -> None:
    """Say everything again."""
    _said.clear()
