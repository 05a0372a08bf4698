"""The context of a rollout on its way into a process that ``multiprocessing`` spawns.

A leaf: the child reads it from a pickle before the program's code runs, also where it does not record.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any


class InheritedContext:
    """In the parent the variables of a context; read in the child, it makes that context current."""

    __slots__ = ("_environment",)

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def __reduce__(self) -> tuple[Any, ...]:
        return carry_on, (self._environment,)


def carry_on(environment: dict[str, str]) -> None:
    """Make the context in ``environment`` current in this thread for good, where telemetry is on."""
    # The pickle is the program's: an error here would end its child.
    with suppress(Exception):
        import otel_rl  # noqa: PLC0415 - not before the error is kept inside

        if otel_rl._enabled():  # noqa: SLF001 - one package
            from otel_rl.telemetry import propagation  # noqa: PLC0415 - only where telemetry is on

            propagation.carry_on(environment)
