"""Children that ended otherwise than with status 0, as events."""

from __future__ import annotations

import signal
from threading import main_thread
from typing import TYPE_CHECKING

from opentelemetry._logs import SeverityNumber

from otel_rl.semconv import attributes, events
from otel_rl.telemetry import lifecycle
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from otel_rl.process.exit_records import Exit

_scope = Scope("process")


def report(exit_: Exit) -> None:
    """Emit ``rl.process.exit``, except for an end with status 0."""
    if exit_.status == 0:
        return
    # Pools and parents that clean up end their workers so; the status of a pool's worker says nothing of its calls.
    is_usual = (
        exit_.status == -signal.SIGTERM or (exit_.is_of_pool and exit_.status > 0) or _is_killed_with_worker(exit_)
    )
    _scope.event(
        events.RL_PROCESS_EXIT,
        body=f"child process {exit_.cause}",
        severity=SeverityNumber.INFO if is_usual else SeverityNumber.ERROR,
        attributes={
            attributes.RL_CHILD_PID: exit_.lifetime.pid,
            attributes.RL_CHILD_RANK: exit_.rank,
            attributes.RL_CHILD_SIGNAL: exit_.signal,
            attributes.RL_CHILD_OOM_KILLS: exit_.oom_kills,
            attributes.PROCESS_EXIT_CODE: exit_.status if exit_.status > 0 else None,
        },
    )


def _is_killed_with_worker(exit_: Exit) -> bool:
    """Return whether Ray has ended the child with its worker, this process: it kills the process group of one."""
    is_ending = not main_thread().is_alive()
    return lifecycle.may_be_killed and is_ending and exit_.status == -signal.SIGKILL and not exit_.oom_kills
