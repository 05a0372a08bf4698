"""What goes along with code of the program that runs elsewhere: its rollout; into the workers of pools its step too."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage
from opentelemetry import trace as trace_api
from opentelemetry.context import get_current

from otel_rl.api.spawned import CarriedArguments
from otel_rl.core import settings
from otel_rl.process import pool_workers
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlInferenceRoleValues as Role
from otel_rl.telemetry import open_trajectory, propagation
from otel_rl.training import caller_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context

#: A rollout or step has gone on in another process: the worker of a pool may be in one.
_is_in_processes = False


def of_open_rollout() -> Context | None:
    """Return the current context, where a rollout is open in it."""
    context = get_current()
    if baggage.get_baggage(attributes.RL_ROLLOUT_ID, context) is None or settings.current().propagate == "off":
        return None
    return context if trace_api.get_current_span(context).get_span_context().is_valid else None


def of_open_trajectory() -> Context | None:
    """Return the current context if a rollout or an agent's run is open in it."""
    if open_trajectory.current() is not None and settings.current().propagate != "off":
        return get_current()
    return of_open_rollout()


def variables(context: Context) -> dict[str, str]:
    """Return the variables that carry ``context`` into a process, with the role of model calls in it."""
    from otel_rl.inference import call_roles  # noqa: PLC0415 - few rollouts start processes

    role = call_roles.role_of(context, open_trajectory.current(context), None)
    if role in (Role.JUDGE, Role.TOOL):
        context = baggage.set_baggage(attributes.RL_INFERENCE_ROLE, role, context)
    return propagation.to_environment(context)


def starts(process: Any) -> Context | None:
    """Remember whether a process that starts may be in a rollout or step; return the rollout that it goes on with."""
    global _is_in_processes
    context = of_open_rollout()
    # A forked worker of ``multiprocessing.Pool`` is in what its pool was made in, until a call says otherwise.
    is_in_step = pool_workers.is_of_process_pool(process) and caller_steps.message() is not None
    _is_in_processes = _is_in_processes or context is not None or is_in_step
    # As for threads: the calls of a worker carry their own. It may take one that was there before the rollout.
    return None if context is None or pool_workers.is_of_executor(process) or not is_same_python() else context


def carrier() -> Callable[[dict[str, Any]], CarriedArguments] | None:
    """Return what gives a call's arguments its rollout and step; None where its worker cannot read or need them."""
    global _is_in_processes
    context = of_open_rollout()
    step = caller_steps.message() if settings.current().propagate != "off" else None
    _is_in_processes = _is_in_processes or context is not None or step is not None
    # Outside of all rollouts and steps too, once a worker may have been in one.
    if not _is_in_processes or not is_same_python():
        return None
    environment = {} if context is None else variables(context)
    if step is not None:
        environment[caller_steps.VARIABLE] = step
    return lambda arguments: CarriedArguments(arguments, environment)


def is_same_python() -> bool:
    """Return whether spawned children run the same interpreter, so they can import this package."""
    spawn = sys.modules.get("multiprocessing.spawn")
    executable = spawn.get_executable() if spawn is not None else sys.executable
    return executable is None or os.fsdecode(executable) == sys.executable
