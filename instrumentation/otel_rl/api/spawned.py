"""The rollout that a process spawned by ``multiprocessing`` goes on with; of a pool's worker the step of its call too.

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


class CarriedArguments(dict[str, Any]):
    """Arguments by name of a call for a worker of a process pool; read there, they make its context current."""

    __slots__ = ("_environment",)

    def __init__(self, arguments: dict[str, Any], environment: dict[str, str]) -> None:
        super().__init__(arguments)
        self._environment = environment

    def __reduce__(self) -> tuple[Any, ...]:
        return begin_call, (self._environment, dict(self))


def begin_call(environment: dict[str, str], arguments: dict[str, Any]) -> dict[str, Any]:
    """Make the context of a call current in this worker, instead of that of the call before; return its arguments."""
    carry_on(environment, is_next=True)
    return arguments


def carry_on(environment: dict[str, str], *, is_next: bool = False) -> None:
    """Make the context in ``environment`` current in this thread for good, where telemetry is on.

    ``is_next``: instead of that of the call before it, and with the step of this one.
    """
    # The pickle is the program's: an error here would end its child.
    with suppress(Exception):
        import otel_rl  # noqa: PLC0415 - not before the error is kept inside

        if otel_rl._enabled():  # noqa: SLF001 - one package
            from otel_rl.telemetry import propagation  # noqa: PLC0415 - only where telemetry is on

            if is_next:
                from otel_rl.training import caller_steps  # noqa: PLC0415 - only in the worker of a pool

                propagation.leave_rollout()
                caller_steps.begin_call(environment.get(caller_steps.VARIABLE))
            if propagation.carry_on(environment):
                from otel_rl.training import trajectory_changes  # noqa: PLC0415 - only inside of a rollout

                trajectory_changes.begin_in_child(is_forked=False)
