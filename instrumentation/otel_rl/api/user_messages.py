"""Lines for the user about a mistake in the use of the producer API: each once, and few of them."""

from __future__ import annotations

from otel_rl import stderr
from otel_rl.process import process_identity

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


def forget() -> None:
    """Say everything again."""
    _said.clear()
