"""A number in the state of a graph that is the score of its trajectory: ``reward``, or what the user names.

What counts is the value that the state of the top graph has when its run ends: of an overwritten key the last one, of a
key with a reducer the reduced one. It counts where a node has set it: what the caller has put there is no score, nor is
what a checkpoint has kept of an earlier run. An interrupted run has no score; the run that resumes it has.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.api import scores
from otel_rl.api.scored_rollouts import ScoredRollout
from otel_rl.core import settings
from otel_rl.inference import call_roles
from otel_rl.instrumentors.langchain import runs
from otel_rl.instrumentors.langchain.errors import is_a
from otel_rl.semconv.attributes import RlInferenceRoleValues as Role
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import Scope, drops, lifecycle, open_trajectory
from otel_rl.telemetry.attribute_values import score
from otel_rl.telemetry.context import get_current

if TYPE_CHECKING:
    from collections.abc import Iterator

    #: A checkpointer's identity, and a thread of it.
    Thread = tuple[int, str]

_scope = Scope("langchain")
_COMMAND = ("langgraph.types", "Command")
#: Most threads of checkpointers that are remembered, those whose runs ended last.
MAXIMUM_THREADS = 4096
#: Whether the state holds a score that has not counted yet, by thread: its last run was interrupted after that was set.
_uncounted: OrderedDict[Thread, bool] = OrderedDict()


def node_began(run: runs.TracedRun, inputs: Any) -> None:
    """Note the score in the state that a node is given."""
    key = settings.current().graph_reward
    if key and isinstance(inputs, dict):
        run.given = tuple(inputs), inputs.get(key)


def node_ended(run: runs.TracedRun, outputs: Any) -> None:
    """Note that a node has set the score, in its own graph and in those above."""
    key = settings.current().graph_reward
    if not key or not any(_sets(key, update, run) for update in _updates_in(outputs)):
        return
    above: runs.TracedRun | None = run
    while above is not None:
        above.has_scored = True
        above = above.above


def graph_left(_: Any, loop: Any, _kind: Any = None, error: Any = None, *__: Any) -> None:
    """After ``PregelLoop._suppress_interrupt``: the run of a graph has ended, by ``error`` or without."""
    key = settings.current().graph_reward
    run = runs.open_run(getattr(loop.manager, "run_id", None))
    if not key or run is None or not _is_top(run, loop):
        return
    thread = _thread(loop)
    # Of a thread that another process has interrupted nothing is known.
    before = _uncounted.pop(thread, True) if thread is not None else False
    has_scored = run.has_scored or (run.resumes and before)
    is_interrupted = is_a(error, "langgraph.errors", "GraphInterrupt")
    if thread is not None:
        _uncounted[thread] = has_scored and is_interrupted
        if len(_uncounted) > MAXIMUM_THREADS:
            _uncounted.popitem(last=False)
    value = _value(loop, key) if has_scored and not is_interrupted else None
    if value is not None and not _belongs_to_another(run):
        _record(run, key, value)


def resumes(inputs: Any) -> bool:
    """Return whether a run with these inputs goes on with an earlier one."""
    return inputs is None or (is_a(inputs, *_COMMAND) and inputs.resume is not None)


def _is_top(run: runs.TracedRun, loop: Any) -> bool:
    """Return whether no other graph runs this one, as a node or in the code of one."""
    if loop.is_nested:
        return False
    around = runs.entered()
    return not _is_below_graph(run.above) and (around is run or not _is_below_graph(around))


def _is_below_graph(run: runs.TracedRun | None) -> bool:
    while run is not None:
        if run.is_graph:
            return True
        run = run.above
    return False


def _belongs_to_another(run: runs.TracedRun) -> bool:
    """Return whether a judge or a tool has called the graph: its score is no score of the trajectory around."""
    if run.trajectory is not None:
        return False
    role = call_roles.role_of(run.began_in, open_trajectory.current(run.began_in), None)
    return role in (Role.JUDGE, Role.TOOL)


def _thread(loop: Any) -> Thread | None:
    thread = loop.config.get("configurable", {}).get("thread_id")
    return None if loop.checkpointer is None or thread is None else (id(loop.checkpointer), str(thread))


def _updates_in(outputs: Any) -> Iterator[Any]:
    """Yield the updates of a state in what a node returned: directly, in commands, or in the error that carries one."""
    if isinstance(outputs, BaseException):
        outputs = outputs.args[0] if outputs.args else None
    for output in outputs if isinstance(outputs, list) else (outputs,):
        yield output.update if is_a(output, *_COMMAND) else output


def _sets(key: str, update: Any, run: runs.TracedRun) -> bool:
    if not isinstance(update, dict):
        fields = getattr(update, "model_fields_set", None) or (vars(update) if is_dataclass(update) else ())
        return key in fields and getattr(update, key, None) is not None
    if update.get(key) is None:
        return False
    keys, given = run.given
    # Some nodes return the whole state, with the score they found in it.
    return not (update[key] is given and len(keys) > 1 and update.keys() >= set(keys))


def _value(loop: Any, key: str) -> Any:
    channel = loop.channels.get(key)
    if channel is None:
        # A graph of the functional API has what it returns.
        output = getattr(loop, "output", None)
        return output.get(key) if isinstance(output, dict) else None
    try:
        return channel.get()
    except Exception as error:
        if is_a(error, "langgraph.errors", "EmptyChannelError"):
            return None
        raise


def _record(run: runs.TracedRun, key: str, given: Any) -> None:
    value = score(given)
    if value is None:
        drops.count(Signal.METRICS, "unsupported_type")
        return
    counters = run.trajectory.counters if run.trajectory is not None else open_trajectory.current(run.context)
    if counters is not None:
        counters.add_reward(key, value)
    context = get_current() if run.context is None else run.context
    scored = None if counters is None else ScoredRollout(counters, None, context)
    scores.record(context, scored, key, value, scope=_scope)


lifecycle.after_fork_in_child(_uncounted.clear)
