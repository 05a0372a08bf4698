"""Children that ended otherwise than with status 0, as events."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from opentelemetry._logs import SeverityNumber

from otel_rl.semconv import attributes, events
from otel_rl.telemetry.scope import Scope

if TYPE_CHECKING:
    from otel_rl.process.exit_records import Exit

_scope = Scope("process")


def report(found: Exit) -> None:
    """Emit ``rl.process.exit``, except for an end with status 0."""
    if found.status == 0:
        return
    # Pools and parents that clean up end their workers so.
    is_usual = found.status == -signal.SIGTERM
    _scope.event(
        events.RL_PROCESS_EXIT,
        body=f"child process {found.cause}",
        severity=SeverityNumber.INFO if is_usual else SeverityNumber.ERROR,
        attributes={
            attributes.RL_CHILD_PID: found.lifetime.pid,
            attributes.RL_CHILD_RANK: found.rank,
            attributes.RL_CHILD_SIGNAL: found.signal,
            attributes.RL_CHILD_OOM_KILLS: found.oom_kills,
            attributes.PROCESS_EXIT_CODE: found.status if found.status > 0 else None,
        },
    )
