"""The driver of a job: its begin and end are those of the run, and it asks the cluster how the actors ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry._logs import SeverityNumber

from otel_rl.core.guard import guard
from otel_rl.core.threads import Wakeup, start_new_thread
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

scope = Scope("ray.ends")
_SITE = guard("ray.ends")
#: Seconds that the driver waits for the answer, whose own time limit is a minute and more.
_LONGEST_WAIT = 0.5
#: Most actors whose ends are recorded.
_MOST = 1000
#: Reasons for which a program ends its actors (``ActorDiedErrorContext.Reason`` in ``common.proto`` of 2.60).
_EXPECTED = frozenset({"RAY_KILL", "OUT_OF_SCOPE", "REF_DELETED", "OWNER_DIED"})
#: What Ray writes of an actor that has called ``exit_actor``.
_OWN_EXIT = "INTENDED_USER_EXIT"
_MILLISECOND = 1_000_000


class _End(NamedTuple):
    reason: str
    is_expected: bool


def _driver() -> Any:
    """Return what this process has of Ray as a connected driver; None where it is none."""
    module = sys.modules.get("ray._private.worker")
    worker = getattr(module, "global_worker", None)
    is_driver = worker is not None and worker.connected and worker.mode == module.SCRIPT_MODE  # type: ignore[union-attr]
    return worker if is_driver and scope.enabled else None


def joined(*_: Any, **__: Any) -> None:
    """Record the begin of the driver, which may record nothing else: Ray's workers end without a record."""
    if _driver() is not None and process_identity.current().role is None:
        process_identity.update(role=RlRoleValues.DRIVER)


def at_exit() -> None:
    """As :func:`leaving`, for a program that does not call ``ray.shutdown``."""
    with _SITE:
        leaving()


def leaving(*_: Any, **__: Any) -> None:
    """Record the actors of this job that are dead by now or were started again; the others end with the driver."""
    worker = _driver()
    if worker is None:
        return
    done = Wakeup()
    actors: list[Mapping[str, Any]] = []

    def ask() -> None:
        with _SITE:
            state = sys.modules["ray._private.state"].state
            actors.extend(state.actor_table(None, worker.current_job_id).values())
        done.set()

    # Python 3.12.0 to 3.12.2 start no thread in ``atexit`` (https://github.com/python/cpython/issues/113964).
    try:
        start_new_thread(ask, ())
    except RuntimeError:
        return
    if done.wait(_LONGEST_WAIT):
        for actor in actors[:_MOST]:
            _record(actor)


def _record(actor: Mapping[str, Any]) -> None:
    restarts = actor.get("NumRestarts") or 0
    end = _end(actor["DeathCause"]) if actor.get("State") == "DEAD" else None
    if end is None and not restarts:
        return
    end = end or _End("RESTARTED", is_expected=False)
    scope.event(
        events.RL_WORKER_END,
        attributes={
            attributes.RL_WORKER_ID: actor.get("ActorID"),
            attributes.RL_WORKER_NAME: actor.get("ActorClassName"),
            attributes.RL_WORKER_END_REASON: end.reason,
            attributes.RL_WORKER_END_EXPECTED: end.is_expected,
            attributes.RL_WORKER_RESTARTS: restarts or None,
            attributes.RL_CHILD_PID: actor.get("Pid"),
        },
        severity=SeverityNumber.INFO if end.is_expected else SeverityNumber.WARN,
        timestamp=(actor.get("EndTime") or 0) * _MILLISECOND or None,
    )


def _end(cause: Any) -> _End:
    """Return the end that ``cause`` (``ActorDeathCause`` of ``common.proto``) describes."""
    kind = cause.WhichOneof("context") or ""
    if kind != "actor_died_error_context":
        # oom_context, creation_task_failure_context and others: their names say it.
        return _End(kind.removesuffix("_context").upper() or "UNKNOWN", is_expected=False)
    context = cause.actor_died_error_context
    reason = context.DESCRIPTOR.fields_by_name["reason"].enum_type.values_by_number[context.reason].name
    return _End(reason, is_expected=reason in _EXPECTED or _OWN_EXIT in context.error_message)
