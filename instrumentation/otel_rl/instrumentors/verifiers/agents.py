"""``verifiers.v1``: a rollout opens, runs its agent in steps and closes, in one task or in several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from opentelemetry.context import create_key, get_current, get_value, set_value

from otel_rl.api import scores
from otel_rl.api.rollouts import Rollout
from otel_rl.instrumentors.patch_functions import left, observing, together
from otel_rl.telemetry import Scope
from otel_rl.telemetry.context import attach, detach
from otel_rl.training import environments

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context

scope = Scope("verifiers")
_ENVIRONMENT = create_key("otel_rl.verifiers_environment")
#: Error of a rollout that its program gives up.
_ABORTED = "CancelledError"


class _TraceRollout(Rollout):
    """The rollout of a trace, and the context that its parts run in."""

    def __init__(self, trace: Any) -> None:
        key = trace.task.key
        self.environment = str(get_value(_ENVIRONMENT) or trace.task.type)
        super().__init__(trace.id, key, key, None, None, None, False, None, environment=self.environment)
        self.context: Context = get_current()
        self.leave()


#: By the library's rollout, and by the id of its trace.
_open: WeakKeyDictionary[Any, _TraceRollout] = WeakKeyDictionary()
_by_trace: WeakValueDictionary[str, _TraceRollout] = WeakValueDictionary()


def _opens(run: Any) -> tuple[Any, Token[Context]] | None:
    _open[run] = _by_trace[run.trace.id] = _TraceRollout(run.trace)
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


def _judge(opened: _TraceRollout, trace: Any) -> None:
    """Take what the library knows of a rollout that is over."""
    trajectory = opened.trajectory
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
        opened.end(error, None)


def _rewarded(_: Any, trace: Any, name: str, value: float, weight: float = 1.0) -> None:
    """Take a reward that an environment gives to a rollout which has ended."""
    if trace.is_completed and trace.id not in _by_trace:
        scores.reward(name, value, None, None, None, weight, None, None, trace.id)


def _requested(server: Any, request: Any, dialect: Any) -> Token[Context] | None:
    """Enter the rollout: the server makes the model calls of an agent's process in tasks of its own."""
    session = server.sessions.get(dialect.secret(request.headers))
    opened = None if session is None else _by_trace.get(session.trace.id)
    return None if opened is None else attach(opened.context)


def _episode_begins(environment: Any, *_: Any, **__: Any) -> Token[Context]:
    return attach(set_value(_ENVIRONMENT, environment.config.env_id))


patch_rollout = together(
    observing("Rollout.open", begin=_opens, end=_left),
    observing("Rollout.step", begin=_continues, end=_left),
    observing("Rollout.close", begin=_continues, end=_closed),
    observing("Rollout.abort", before=_aborts),
)
patch_proxy = observing("InterceptionServer.handle_request", begin=_requested, end=left)
#: 0.1 has another class of this name.
patch_environment = observing("Env.run_episode", begin=_episode_begins, end=left, required=False)
patch_trace = observing("Trace.record_reward", after=_rewarded)
