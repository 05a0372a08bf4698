"""``verifiers.v1``: a rollout opens, runs its agent in steps and closes, in one task or in several."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from opentelemetry.context import get_current

from otel_rl.api import scores
from otel_rl.api.rollouts import Rollout
from otel_rl.telemetry import Scope
from otel_rl.telemetry.context import attach, detach
from otel_rl.training import environments

if TYPE_CHECKING:
    from contextvars import Token
    from types import ModuleType

    from opentelemetry.context import Context

    from otel_rl.instrumentors.patching import Patches

scope = Scope("verifiers")
_environment: ContextVar[str | None] = ContextVar("otel_rl_verifiers_environment", default=None)
#: Error of a rollout that its program gives up.
_ABORTED = "CancelledError"


class _OpenRun:
    """A rollout that has not ended, and the context that its parts run in."""

    __slots__ = ("__weakref__", "context", "environment", "rollout")

    def __init__(self, run: Any) -> None:
        task = run.trace.task
        self.environment = _environment.get() or task.type
        identifier, key = run.trace.id, task.key
        self.rollout = Rollout(identifier, key, key, None, None, None, False, None, environment=self.environment)
        self.context: Context = get_current()
        self.rollout.leave()


#: By the library's rollout, and by the id of its trace.
_open: WeakKeyDictionary[Any, _OpenRun] = WeakKeyDictionary()
_by_trace: WeakValueDictionary[str, _OpenRun] = WeakValueDictionary()


def patch_rollout(module: ModuleType, patches: Patches) -> None:
    """Follow the parts of a rollout."""
    patches.observe(module, "Rollout.open", begin=_opens, end=_left, required=True)
    patches.observe(module, "Rollout.step", begin=_continues, end=_left, required=True)
    patches.observe(module, "Rollout.close", begin=_continues, end=_closed, required=True)
    patches.observe(module, "Rollout.abort", before=_aborts, required=True)


def patch_proxy(module: ModuleType, patches: Patches) -> None:
    """Let model calls of an agent's process, which the server makes in tasks of its own, be part of the rollout."""
    patches.observe(module, "InterceptionServer.handle_request", begin=_requested, end=_answered, required=True)


def patch_environment(module: ModuleType, patches: Patches) -> None:
    """Learn which environment rollouts are of; 0.1 has another class of this name."""
    patches.observe(module, "Env.run_episode", begin=_episode_begins, end=_episode_ended)


def patch_trace(module: ModuleType, patches: Patches) -> None:
    """Take rewards that an environment gives to rollouts which have ended."""
    patches.observe(module, "Trace.record_reward", after=_rewarded, required=True)


def _opens(run: Any) -> tuple[Any, Token[Context]] | None:
    if scope.enabled:
        _open[run] = _by_trace[run.trace.id] = _OpenRun(run)
    return _continues(run)


def _continues(run: Any, *_: Any, **__: Any) -> tuple[Any, Token[Context]] | None:
    opened = _open.get(run)
    return None if opened is None else (run, attach(opened.context))


def _left(state: tuple[Any, Token[Context]], _: Any, error: BaseException | None) -> None:
    run, token = state
    detach(token)
    if error is not None:
        _end(run, error)


def _closed(state: tuple[Any, Token[Context]], trace: Any, error: BaseException | None) -> None:
    run, token = state
    if error is None:
        _judge(_open[run], trace)
    detach(token)
    _end(run, error or (None if trace.ok else trace.last_error.type))


def _aborts(run: Any) -> None:
    _end(run, _ABORTED)


def _judge(opened: _OpenRun, trace: Any) -> None:
    """Take what the library knows of a rollout that is over."""
    trajectory = opened.rollout.trajectory
    for name, reward in trace.rewards.items():
        scores.reward(name, reward.score, None, None, None, reward.weight, None, None, trajectory)
    for name, value in trace.metrics.items():
        trajectory.add_metric(name, value)
    # The last answer, which may not be parsed yet, has a reason too.
    trajectory.finish_unparsed()
    trajectory.stop_reason = trace.stop_condition
    environments.count_episode(opened.environment, trajectory.reward or 0.0, trace.num_turns, None)


def _end(run: Any, error: BaseException | str | None) -> None:
    opened = _open.pop(run, None)
    if opened is not None:
        opened.rollout.end(error, None)


def _rewarded(_: Any, trace: Any, name: str, value: float, weight: float = 1.0) -> None:
    if trace.is_completed and trace.id not in _by_trace:
        scores.reward(name, value, None, None, None, weight, None, None, trace.id)


def _requested(server: Any, request: Any, dialect: Any) -> Token[Context] | None:
    session = server.sessions.get(dialect.secret(request.headers))
    opened = None if session is None else _by_trace.get(session.trace.id)
    return None if opened is None else attach(opened.context)


def _answered(token: Token[Context], *_: Any) -> None:
    detach(token)


def _episode_begins(environment: Any, *_: Any, **__: Any) -> Token[str | None]:
    return _environment.set(environment.config.env_id)


def _episode_ended(token: Token[str | None], *_: Any) -> None:
    with suppress(ValueError):
        _environment.reset(token)
