"""OpenTelemetry for LLM post-training.

Nothing has to be called: ``opentelemetry-instrument python train.py`` records an unmodified program. This module is the
small producer API for those who want to add what no instrumentor can know::

    import otel_rl

    with otel_rl.rollout(sample_id=7, group_id=3, policy_version=12):
        with otel_rl.llm("my-model", temperature=0.7) as call:
            ...
            call.usage(input_tokens=812, output_tokens=64)
        with otel_rl.tool("search"):
            ...
        otel_rl.reward("exact_match", 1.0)

    otel_rl.flush(timeout=5)      # before a preemption, say

=======================  ====================================================  ==========================
:func:`rollout`          one trajectory, the root of a trace of its own        context manager, decorator
:func:`step`             one training iteration                                context manager
:func:`phase`            a phase of the step, e.g. ``sample``, ``backward``    context manager, decorator
:func:`llm`              one call of a model whose client has no instrumentor  context manager, decorator
:func:`tool`             one tool call                                         context manager, decorator
:func:`span`             anything else that takes time                         context manager, decorator
:func:`reward`           a score of the current rollout                        call
:func:`reward_function`  one call of a reward function, and its score          context manager, decorator
:func:`rollout_metric`   a value of the current rollout                        call
:func:`metric`           a value of the trainer's own                          call
:func:`count`            a counter of your own                                 call
:func:`observe`          a value in a histogram of your own                    call
:func:`gauge`            the present value of something of your own            call
:func:`event`            something worth a log record                          call
:func:`trace_id`         the current trace, for logs of your own               call
:func:`flush`            deliver what has been recorded so far                 call
:func:`start`            begin to record in a process that runs, a notebook    call
:mod:`otel_rl.sinks`     objects of your own that get each step as it ends     `import otel_rl.sinks`
=======================  ====================================================  ==========================

Without telemetry (no ``opentelemetry-instrument``, no :func:`start`, no tracer provider set) every call returns at
once, in less than a microsecond, and imports nothing. No call raises for what it is given except where its
documentation says so.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from otel_rl.core import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from typing_extensions import Self

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = [
    "__version__",
    "count",
    "event",
    "flush",
    "gauge",
    "llm",
    "metric",
    "observe",
    "phase",
    "reward",
    "reward_function",
    "rollout",
    "rollout_metric",
    "span",
    "start",
    "step",
    "tool",
    "trace_id",
]


def _enabled() -> bool:
    trace = sys.modules.get("opentelemetry.trace")
    return trace is not None and getattr(trace, "_TRACER_PROVIDER", None) is not None


_operations_module: Any = None
_import_failed = False
#: Processes and threads that import it.
_importing: set[tuple[int, int]] = set()


def _operations() -> Any:
    """Return the module behind this one; None while telemetry is off, or where another SDK breaks its import."""
    if not _enabled():
        return None
    return _operations_module or _import_operations()


def _import_operations() -> Any:
    global _operations_module, _import_failed
    here = os.getpid(), get_ident()
    # A signal handler that interrupts the import would find half a module. Another thread waits, as at any import, but
    # not in a child that was forked meanwhile: the thread that imports is not there.
    waits = any(process == here[0] for process, _ in _importing.copy())
    if _import_failed or here in _importing or (_is_unfinished() and not waits):
        return None
    _importing.add(here)
    try:
        from otel_rl.api import operations  # noqa: PLC0415 - nothing is imported while telemetry is off
    except Exception as error:  # noqa: BLE001 - none of ours may reach the program
        _tell_failure(error)
        # An import that failed would be tried again, slowly, at every call.
        _import_failed = True
        return None
    finally:
        _importing.discard(here)
    # Where waiting would be a deadlock, Python gives half a module.
    if _is_unfinished():
        return None
    _operations_module = operations
    return operations


def _is_unfinished() -> bool:
    spec = getattr(sys.modules.get("otel_rl.api.operations"), "__spec__", None)
    return getattr(spec, "_initializing", False)


def _tell_failure(error: Exception, *lost: str) -> None:
    """Say once what is lost by an import that failed; raise again what a signal handler of the program has raised."""
    try:
        from otel_rl.core.guard import raised_by_signal_handler  # noqa: PLC0415 - nothing is imported before
        from otel_rl.process import launch  # noqa: PLC0415 - as above
    except Exception:  # noqa: BLE001 - nothing more can be imported, and nobody has set telemetry up
        return
    if raised_by_signal_handler(error):
        raise error
    launch.report_failure(error, *lost)


def _decorated(how: str, function: Any, *given: Any) -> Any:
    """Return ``function`` as :mod:`otel_rl.api.decorator` wraps it; unchanged where that module cannot be loaded."""
    try:
        from otel_rl.api import decorator  # noqa: PLC0415 - inspect is not needed by those who do not decorate

        wrap = getattr(decorator, how)
    except Exception as error:  # noqa: BLE001 - none of ours may reach the program
        _tell_failure(error, "decorators could not be loaded", "what they decorate is not recorded")
        return function
    return wrap(function, *given)


class _LazyOperation:
    """Something with a beginning and an end; opened through :mod:`otel_rl.api.operations` when telemetry is on.

    One object may be entered again, also inside itself. It is for one thread or task at a time: make one for each.
    """

    __slots__ = ("_arguments", "_kind", "_opened")
    #: Method of the open operation that takes what a decorated function returns.
    _observed: str | None = None

    def __init__(self, kind: str, arguments: dict[str, Any]) -> None:
        self._kind = kind
        self._arguments = arguments
        #: What is open, innermost last.
        self._opened: tuple[Any, ...] = ()

    def _given(self) -> dict[str, Any]:
        """Return what the operation is opened with; asked only while telemetry is on."""
        return self._arguments

    def _forget(self) -> None:
        """Telemetry is off: keep nothing of the call."""

    # What waits in a block when the interpreter ends is closed when the names of this module are gone already.
    def __enter__(self, _is_finalizing: Any = sys.is_finalizing) -> Self:
        operations = None if _is_finalizing() else _operations()
        if operations is not None:
            self._opened = (*self._opened, operations.open_operation(self._kind, self._given()))
        else:
            self._forget()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        _is_finalizing: Any = sys.is_finalizing,
    ) -> None:
        if self._opened and not _is_finalizing():
            *outer, opened = self._opened
            self._opened = tuple(outer)
            if opened is not None:
                self._close(opened, error)

    def _close(self, opened: Any, error: BaseException | None) -> None:
        opened.close(error)

    def open_detached(self) -> Any:
        """For the generator decorator: open without becoming current in the caller; None while telemetry is off."""
        operations = _operations()
        return None if operations is None else operations.open_detached(self._kind, self._given())

    def handed_on(self, value: Any) -> Any:
        """For the decorator: what a function returns that is no coroutine function; an awaitable is no result yet."""
        if self._opened and self._opened[-1] is not None and self._opened[-1].ends_before(value):
            return value
        return self.returned(value)

    def returned(self, value: Any) -> Any:
        """For the decorator: record ``value``, where results are, and hand it on."""
        if self._observed is not None:
            self._tell(self._observed, value=value)
        return value

    def fail(self, kind: str) -> None:
        """Mark the operation as failed without an exception; ``kind`` becomes ``error.type``, e.g. ``"timeout"``."""
        if self._opened and self._opened[-1] is not None:
            self._opened[-1].fail(kind)

    def _tell(self, what: str, **given: Any) -> None:
        """Hand on to the innermost open operation what the program says of it."""
        if self._opened and self._opened[-1] is not None:
            self._opened[-1].tell(what, given)


class _DecoratingOperation(_LazyOperation):
    """An operation that also decorates sync, async and generator functions: one operation per call."""

    __slots__ = ()

    def __call__(self, function: Function) -> Function:
        wrapped: Function = _decorated("wrap", function, lambda: _LazyOperation(self._kind, self._arguments))
        return wrapped


#: Names of a function's parameters, and the values of a call.
_Call = tuple[tuple[str, ...], Any]


class _CallOperation(_DecoratingOperation):
    """An operation with arguments and a result. As a decorator it takes them from each call."""

    __slots__ = ("_call",)
    _observed = "result"

    def __init__(self, kind: str, arguments: dict[str, Any], call: _Call = ((), ())) -> None:
        super().__init__(kind, arguments)
        #: Of the decorated function.
        self._call = call

    def of_call(self, names: tuple[str, ...], values: Any) -> _CallOperation:
        """Return the same operation for one call of the decorated function."""
        return _CallOperation(self._kind, self._arguments, (names, values))

    def __call__(self, function: Function) -> Function:
        wrapped: Function = _decorated("wrap_call", function, self.of_call)
        return wrapped

    def _given(self) -> dict[str, Any]:
        names, values = self._call
        # Asked once for a call, which may outlive its arguments.
        self._forget()
        if not names or self._arguments["arguments"] is not None:
            return self._arguments
        return {**self._arguments, "arguments": dict(zip(names, values, strict=True))}

    def _forget(self) -> None:
        self._call = ((), ())

    def result(self, value: Any) -> None:
        """Record what was returned; kept only where content capture is on."""
        self._tell("result", value=value)


def _decorate(operation: _CallOperation, decorated: Any, what: object) -> Any:
    """Wrap a function, or the ``__call__`` of a class, which stays the class that it is."""
    if isinstance(decorated, type):
        return _decorated("wrap_class", decorated, operation.of_call, what)
    return _decorated("wrap_call", decorated, operation.of_call)


class _RolloutOperation(_CallOperation):
    """A trajectory. What is said after its end is about the one that ended last."""

    __slots__ = ("_ended",)

    def __init__(self, kind: str, arguments: dict[str, Any]) -> None:
        super().__init__(kind, arguments)
        self._ended: Any = None

    def __call__(self, function: Function) -> Function:
        decorated: Function = _decorate(self, function, self._kind)
        return decorated

    def _close(self, opened: Any, error: BaseException | None) -> None:
        self._ended = opened.trajectory
        opened.close(error)

    def _trajectory(self) -> Any:
        opened = self._opened[-1] if self._opened else None
        return self._ended if opened is None else opened.trajectory

    def _judge(self, judgement: str, **given: Any) -> None:
        trajectory = self._trajectory()
        operations = None if trajectory is None else _operations()
        if operations is not None:
            operations.judge(trajectory, judgement, given)

    def train(self, advantage: float | None = None, *, estimator: str | None = None) -> None:
        """Say that the program trains on the trajectory, with which advantage, and by which formula it has that.

        The report computes the advantage again where the formula is one of: ``grpo`` (difference to the mean of the
        group, divided by its standard deviation + 1e-4), ``grpo_batch`` (divided by that of the whole batch),
        ``dr_grpo`` (not divided), ``rloo`` (difference to the mean of the others).
        """
        self._judge("train", advantage=advantage, estimator=estimator)

    def discard(self, reason: str) -> None:
        """Say that the program does not train on the trajectory, and why, in a word or two: ``"too_long"``."""
        self._judge("discard", reason=reason)

    def succeed(self, success: bool = True) -> None:
        """Say whether the trajectory has done its task."""
        self._judge("succeed", success=success)

    def reward(
        self,
        name: str,
        value: float | None,
        *,
        label: str | None = None,
        explanation: str | None = None,
        turn: int | str | None = None,
        weight: float = 1.0,
        parts: Mapping[str, float] | None = None,
        success: bool | None = None,
    ) -> None:
        """Record a score of the trajectory as :func:`reward` does, from any thread or task and after its end too."""
        trajectory = self._trajectory()
        operations = None if trajectory is None else _operations()
        if operations is not None:
            operations.reward(name, value, label, explanation, turn, weight, parts, success, trajectory)


_NO_DECORATOR = "otel_rl.step is no decorator: write `with otel_rl.step(iteration):` around the work of one iteration"


class _StepOperation(_LazyOperation):
    """A step of the user's own loop."""

    __slots__ = ()

    def __call__(self, *_: object) -> NoReturn:
        raise TypeError(_NO_DECORATOR)


class _SpanOperation(_DecoratingOperation):
    """A span of the program's own."""

    __slots__ = ()

    def set(self, **attributes: Any) -> None:
        """Add attributes to the span."""
        self._tell("set", values=attributes)


class _ModelCallOperation(_DecoratingOperation):
    """A call of a model. As a decorator it reads what the function returns."""

    __slots__ = ()
    _observed = "observe"

    def __call__(self, function: Function) -> Function:
        kind, arguments = self._kind, self._arguments
        wrapped: Function = _decorated("wrap_call", function, lambda *_: _ModelCallOperation(kind, arguments))
        return wrapped

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
    ) -> None:
        """Say how many tokens the call took in and made, and how many of the input came from a cache."""
        self._tell("usage", input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens)

    def finish(self, reason: str) -> None:
        """Say why the model stopped: ``"stop"``, ``"length"``, ``"tool_calls"``. The block ends the call."""
        self._tell("finish", reason=reason)

    def first_token(self) -> None:
        """Say that the first token of a streamed answer is there."""
        self._tell("first_token")

    def answer(self, value: Any) -> None:
        """Record an answer: an object or dictionary in the form of OpenAI's protocol, or text.

        Tokens, finish reason and model are read from it; its content is kept only where content capture is on.
        """
        self._tell("observe", value=value)


class _ToolOperation(_CallOperation):
    """A tool call."""

    __slots__ = ()


class _RewardFunctionOperation(_CallOperation):
    """A call of a reward function. As a decorator it takes the score from what the function returns."""

    __slots__ = ()

    def __call__(self, function: Function) -> Function:
        decorated: Function = _decorate(self, function, (self._kind, self._arguments["name"]))
        return decorated

    def score(self, value: Any) -> None:
        """Give the score, as the function would return it."""
        self._tell("result", value=value)


def _refuse_bare_decorator(form: str, first_argument: object) -> None:
    # It would replace the function by its wrapper's result at the first call, long after the mistake.
    if callable(first_argument):
        raise TypeError(f"write @otel_rl.{form}, with parentheses")


def rollout(
    rollout_id: str | int | None = None,
    *,
    sample_id: str | int | None = None,
    group_id: str | int | None = None,
    policy_version: str | int | None = None,
    iteration: int | None = None,
    attempt: int | None = None,
    keep: bool = False,
    arguments: Any = None,
) -> _RolloutOperation:
    """One trajectory: the root of a trace of its own, linked to the training step it belongs to.

    LLM calls, tool calls and rewards inside become its children; the ids travel as baggage to servers and workers.
    Of what the ``with`` statement gives, ``succeed()`` says that the task is done, ``discard(reason)`` that the
    trajectory is not used, ``train(advantage)`` that it is, and ``reward(name, value)`` scores it. All work after its
    end too: what comes when its row is recorded is a change, which readers join.

    Where content capture is on (``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``), arguments and result are
    recorded too: the decorator takes them from the call, the context manager from ``arguments`` and ``result()``. The
    result of a generator is what it returns, or else the list of its first 64 items. Decorating a class wraps its
    ``__call__``; the class stays the object that it is. ``OTEL_RL_ROLLOUT_FUNCTIONS`` does the same to a function that
    it names, in a program that is not changed.

    Args:
        rollout_id: Your id of the trajectory; a random one otherwise.
        sample_id: Id of the prompt or task.
        group_id: Id of the group that shares a baseline (GRPO).
        policy_version: Version of the weights that generate.
        iteration: Training iteration it is for; the open step's otherwise.
        attempt: Which try at this sample it is, from 1, where the program tries again after a failure.
        keep: Sampling in the collector keeps this trace whatever happens: every span in it says so, in the processes
            that it calls too.
        arguments: What it is made from; as a decorator's they stand for the arguments of every call.

    Raises:
        TypeError: for ``@otel_rl.rollout`` without parentheses, and for a class without ``__call__`` (also with
            telemetry off).
    """
    _refuse_bare_decorator("rollout()", rollout_id)
    return _RolloutOperation(
        "rollout",
        {
            "rollout_id": rollout_id,
            "sample_id": sample_id,
            "group_id": group_id,
            "policy_version": policy_version,
            "iteration": iteration,
            "attempt": attempt,
            "keep": keep,
            "arguments": arguments,
        },
    )


def step(iteration: int, *, loop: str | None = None) -> _StepOperation:
    """One training iteration (one optimizer step), numbered as the trainer's global step after increment.

    All ranks that call it with the same number meet in one trace. For training loops of your own; inside a step of an
    instrumented trainer, or of yours, this adds nothing. It may be entered in a helper task or thread: phases and
    rollouts of the process find it.

    Args:
        iteration: Number of the step.
        loop: Name of the loop, from a bounded set, where a process runs several at once, e.g. ``"critic"``. Without
            names, loops that run at once are told apart by the order in which they begin.

    Raises:
        TypeError: as a decorator, with and without parentheses: each step has a number of its own (also with telemetry
            off).
    """
    if callable(iteration):
        raise TypeError(_NO_DECORATOR)
    return _StepOperation("step", {"iteration": iteration, "loop": loop})


def phase(name: str) -> _DecoratingOperation:
    """Record a phase of the current step, timed in seconds.

    Args:
        name: ``sample``, ``reward``, ``train``, ``sync`` or one of their parts: ``generate``, ``log_probs``,
            ``forward``, ``backward``, ``optimizer``, ``data_wait``, ``checkpoint``, ``load``, ``evaluate``,
            ``weight_sync``.

    Raises:
        TypeError: for ``@otel_rl.phase`` without parentheses (also with telemetry off).
        ValueError: for any other name, so that a misspelt phase does not vanish (also with telemetry off).
    """
    _refuse_bare_decorator('phase("sample")', name)
    if name not in _PHASES:
        raise ValueError(f"unknown phase {name!r}; use one of: {', '.join(_PHASES)}")
    return _DecoratingOperation("phase", {"name": name})


def tool(name: str, *, call_id: str | None = None, arguments: Any = None) -> _ToolOperation:
    """One call of a tool or environment, as an ``execute_tool`` span and a duration in seconds.

    Where content capture is on (``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``), arguments and result are
    recorded too: the decorator takes them from the call, the context manager from ``arguments`` and ``result()``. Of a
    decorated generator only the arguments are recorded.

    Args:
        name: Tool name, from a bounded set: it is a metric attribute, and after 199 names ``_OTHER`` there.
        call_id: Id of the call that the model produced.
        arguments: What the model asked for; as a decorator's they stand for the arguments of every call.

    Raises:
        TypeError: for ``@otel_rl.tool`` without parentheses (also with telemetry off).
    """
    _refuse_bare_decorator('tool("name")', name)
    return _ToolOperation("tool", {"name": name, "call_id": call_id, "arguments": arguments})


def llm(model: str, *, operation: str = "chat", provider: str | None = None, **parameters: Any) -> _ModelCallOperation:
    """One call of a model through a client that otel-rl does not instrument.

    It is the span, and the metrics, that an instrumented client gets, and it counts in its rollout. What ``with`` gives
    takes what the client knows: ``usage(input_tokens=, output_tokens=)``, ``finish("stop")``, ``first_token()``,
    ``answer(value)``, ``fail("timeout")``. The decorator reads tokens, finish reason and model from what the function
    returns, where that has the form of OpenAI's protocol. Calls that an instrumented client makes inside belong to this
    span, and they count in the rollout instead of it.

    Args:
        model: Model that is asked, from a bounded set: it is a metric attribute, and after 99 names ``_OTHER`` there.
        operation: ``chat``, ``text_completion``, ``generate_content`` or ``embeddings``.
        provider: Who serves it, e.g. ``"my_engine"``; after 29 names ``_OTHER``, which stands for unknown too.
        parameters: Of the request, as OpenAI's protocol names them: ``temperature``, ``max_tokens``, ``seed``, ...
            ``messages`` or ``prompt`` are recorded only where content capture is on.

    Raises:
        TypeError: for ``@otel_rl.llm`` without parentheses (also with telemetry off).
        ValueError: for any other operation (also with telemetry off).
    """
    _refuse_bare_decorator('llm("model")', model)
    if operation not in _MODEL_OPERATIONS:
        raise ValueError(f"unknown operation {operation!r}; use one of: {', '.join(_MODEL_OPERATIONS)}")
    given = {"model": model, "operation": operation, "provider": provider, "parameters": parameters}
    return _ModelCallOperation("llm", given)


def span(name: str, /, **attributes: Any) -> _SpanOperation:
    """Record work of your own as a span in the current trace. ``set(**attributes)`` adds to it.

    For work of a millisecond and more: spans are not for what happens thousands of times in a step.

    Args:
        name: Name of the span, from a bounded set. After 199 names the span is ``_OTHER``, and so is one whose name
            begins with ``rl.``; attribute ``rl.span.name`` has the name then.
        attributes: Plain values; strings are cut at 8 KiB. They are recorded as they are: no content belongs there.

    Raises:
        TypeError: for ``@otel_rl.span`` without parentheses (also with telemetry off).
    """
    _refuse_bare_decorator('span("name")', name)
    return _SpanOperation("span", {"name": name, "values": attributes})


def reward(
    name: str,
    value: float | None,
    *,
    label: str | None = None,
    explanation: str | None = None,
    turn: int | str | None = None,
    weight: float = 1.0,
    parts: Mapping[str, float] | None = None,
    success: bool | None = None,
    rollout: str | int | _RolloutOperation | None = None,
) -> None:
    """Record a score of a rollout, by default the current one: in its record, as an event, in a histogram per function.

    The health rules judge the rewards of the rollouts that end within each :func:`step`. A score outside of all
    rollouts is an event and in the histogram; no rule judges it, as nothing says which sample it belongs to.

    Args:
        name: Reward function, from a bounded set: it is a metric attribute, and after 49 names ``_OTHER`` there.
        value: Raw score in the function's own unit: a Python or NumPy number, or a tensor of one element in the host's
            memory. A boolean counts as 1 or 0, ``None`` as no score. A value that is not finite is in the event only.
            Anything else is dropped and counted. So is a dictionary: which of its values are the score, and which are
            ``parts`` of it, only the program knows.
        label: Its meaning in one word, e.g. ``pass``.
        explanation: Free text; recorded only where content capture is on.
        turn: Turn that the score is for, from 1, or ``"last"`` for the one that goes on: an answer of the model begins
            one. Without it the score is for the trajectory as a whole.
        weight: Weight of the score in the reward of the trajectory.
        parts: Sub-scores by name, of which the score is made. Each has a mean of its own as ``name/part`` and counts in
            no reward. Their names count as names of functions; of more than 16 the others are dropped and counted.
        success: Whether the trajectory has done its task.
        rollout: The rollout that it is for, instead of the one around the call: its id, in any process of the run, or
            what ``with otel_rl.rollout() as it`` gave. It may have ended; the row that the report shows has the score.
    """
    operations = _operations()
    if operations is None:
        return
    if isinstance(rollout, _RolloutOperation):
        rollout.reward(
            name, value, label=label, explanation=explanation, turn=turn, weight=weight, parts=parts, success=success
        )
        return
    operations.reward(name, value, label, explanation, turn, weight, parts, success, rollout)


def reward_function(name: str, *, weight: float = 1.0, arguments: Any = None) -> _RewardFunctionOperation:
    """One call of a reward function: a span ``rl.reward`` with its duration, and the score that it returns.

    The score is recorded like that of :func:`reward`, for the rollout that is open around the call. A function that
    raises gives none: its span is an error, and the lowest reward of this rollout is suspect. The context manager takes
    the score by ``score(value)``. Decorating a class wraps its ``__call__``. ``OTEL_RL_REWARD_FUNCTIONS`` does the same
    to a function that it names, in a program that is not changed.

    ===============================================  ================================================================
    it returns                                       that is
    ===============================================  ================================================================
    a number, a tensor or array of one element       the score
    a dictionary with the key ``score``              the score; other numbers in it are its parts
    an object or dictionary with ``reward_score``,   the score; its ``reward_metrics`` are parts. If its ``status`` is
    also in ``reward``, as Model Studio has them     ``"failed"``, the call has failed and has no score
    a group of these in ``rewards``                  like a list
    ``None``                                         no score
    a list, tuple, array or tensor of several        one score for each sample of a batch: each counts in the
                                                     histogram, and in no rollout
    anything else, a tensor on a device              dropped and counted
    ===============================================  ================================================================

    Where content capture is on, arguments and result are recorded too, as for :func:`rollout`. Where a trainer with an
    instrumentor calls the function, the trainer's span and scores are the ones that count.

    Args:
        name: Reward function, from a bounded set: it is a metric attribute, and after 49 names ``_OTHER`` there.
        weight: Weight of the score in the reward of the trajectory.
        arguments: What is scored; as a decorator's they stand for the arguments of every call.

    Raises:
        TypeError: for ``@otel_rl.reward_function`` without parentheses, and for a class without ``__call__`` (also with
            telemetry off).
    """
    _refuse_bare_decorator('reward_function("name")', name)
    return _RewardFunctionOperation("reward_function", {"name": name, "weight": weight, "arguments": arguments})


def metric(key: str, value: float | None, *, step: int | None = None) -> None:
    """Record a value of your own: in the record ``rl.step`` of a step, and as gauge ``rl.trainer.metric``.

    The record has the last value of each key, at the end of the step. A value between two guessed steps is in a record
    of the last one. A value wins over a trainer or tracker that logs the same key.

    Args:
        key: From a bounded set, e.g. ``"buffer/size"``; attribute of the gauge. After 299 keys, the gauges of further
            ones are counted as dropped.
        value: Any unit; one that is not finite is in the record, and its gauge is counted as dropped. None: there is
            none yet, and nothing is recorded.
        step: Number of the step that the value belongs to, e.g. of the one whose checkpoint was evaluated. The open
            step unless given; the value of another one is a record of its own. One that is no whole number costs the
            value, which is counted as dropped, and a line says so.
    """
    operations = _operations()
    if operations is not None:
        operations.metric(key, value, step)


def rollout_metric(name: str, value: float) -> None:
    """Record a value of your own of the current rollout, in its record.

    The report and the health rules have its average and sum over the rollouts of each :func:`step`, as
    ``rollout/NAME/mean`` and ``rollout/NAME/sum``. Outside of all rollouts it is counted as dropped.

    Args:
        name: From a bounded set, e.g. ``"hops"``; of more than 32 in a rollout the others are counted as dropped.
        value: Any unit; what is given several times in a rollout adds up. A non-finite value is counted as dropped.
    """
    operations = _operations()
    if operations is not None:
        operations.rollout_metric(name, value)


def count(name: str, value: float = 1, /, *, unit: str = "", **attributes: Any) -> None:
    """Add to a counter of your own.

    Args:
        name: Name of the metric as OpenTelemetry takes it, e.g. ``"my_team.cache.hits"``; none of ``rl.``.
            A process has at most 100 of its own; what comes after them is counted as dropped.
        value: What is added: no negative number.
        unit: In UCUM, e.g. ``"By"``; a name has one unit.
        attributes: At most 8, plain values from bounded sets, and no ids. After 200 sets of them a metric has one more
            for all others, ``otel.metric.overflow``.
    """
    operations = _operations()
    if operations is not None:
        operations.count(name, value, unit, attributes)


def observe(name: str, value: float, /, *, unit: str = "", **attributes: Any) -> None:
    """Record a value in a histogram of your own.

    Args:
        name: As that of :func:`count`, and not that of a counter.
        value: In ``unit``.
        unit: In UCUM, e.g. ``"s"``; buckets of seconds go from 5 ms to 20 min.
        attributes: As those of :func:`count`.
    """
    operations = _operations()
    if operations is not None:
        operations.observe(name, value, unit, attributes)


def gauge(name: str, value: float, /, *, unit: str = "", **attributes: Any) -> None:
    """Set a gauge of your own: what it is now, by attributes, whatever the step. :func:`metric` is for a curve.

    Args:
        name: As that of :func:`count`, and not that of another kind.
        value: In ``unit``; each export has the last one.
        unit: In UCUM, e.g. ``"By"``; a name has one unit.
        attributes: As those of :func:`count`. What comes after 200 sets of them is counted as dropped.
    """
    operations = _operations()
    if operations is not None:
        operations.gauge(name, value, unit, attributes)


def event(name: str, body: Any = None, attributes: Mapping[str, Any] | None = None) -> None:
    """Record a log record with this event name in the current trace.

    Args:
        name: Lower-case, dotted, from a bounded set, e.g. ``"my_team.buffer.reset"``.
        body: Text or a mapping of plain values.
        attributes: Plain values; strings are cut at 8 KiB.
    """
    operations = _operations()
    if operations is not None:
        operations.event(name, body, attributes)


def trace_id() -> str | None:
    """Return the current trace as 32 hexadecimal digits, for a log or a table of your own.

    Outside of all spans it is that of the step that is open. None where there is none, and without telemetry.
    """
    operations = _operations()
    return None if operations is None else operations.trace_id()


def flush(timeout: float = 5.0) -> bool:
    """Deliver what has been recorded so far, and go on recording.

    It may be called any number of times, from any thread and from a signal handler, such as one for a preemption
    notice. Operations that are still open are not part of it: a span is recorded when it ends.

    Args:
        timeout: Longest wait in seconds. The delivery goes on in the background when that was not enough.

    Returns:
        True when all of it was delivered, or when telemetry is off. False when the time was up, when an exporter or
        the file store refused something, or when the program has set up providers of its own: flush those.
    """
    if not _enabled():
        return True
    try:
        from otel_rl.ending import exit as process_exit  # noqa: PLC0415 - nothing is imported while telemetry is off
    except Exception as error:  # noqa: BLE001 - none of ours may reach the program
        _tell_failure(error, "flush() could not be loaded", "it delivers nothing")
        return False

    return process_exit.flush(timeout)


def start() -> str | None:
    """Begin to record in this process, which ``opentelemetry-instrument`` did not start: in a notebook, say.

    All that ``opentelemetry-instrument`` does for a program is done from here on: libraries are instrumented, those
    too that have been imported already, and worker processes that are started later record. Call it as early as you
    can: a function that ``from library import function`` has copied before is not instrumented, and of a process group
    that stands already the rank is not known. The variables ``OTEL_*`` are read here, once.

    Where telemetry is on already, and with ``OTEL_SDK_DISABLED=true``, it does nothing. In a notebook,
    ``%load_ext otel_rl`` calls it and shows how to see the report.

    Returns:
        The run id, ``OTEL_RL_RUN_ID``; None where nothing is recorded.
    """
    try:
        from otel_rl.distro import start as distro_start  # noqa: PLC0415 - for those who call it only

        return distro_start.start_now()
    except Exception as error:  # noqa: BLE001 - none of ours may reach the program
        _tell_failure(error)
    return None


def load_ipython_extension(_: Any) -> None:
    """Begin to record, for ``%load_ext otel_rl``."""
    run_id = start()
    if run_id is None:
        sys.stdout.write("otel-rl: nothing is recorded: OTEL_SDK_DISABLED is set, or a line above says why\n")
        return
    from otel_rl.distro import configurator  # noqa: PLC0415 - loaded by start
    from otel_rl.ending import summary  # noqa: PLC0415 - as above

    telemetry = configurator.telemetry()
    shown = "" if telemetry is None else summary.how_to_show(telemetry)
    sys.stdout.write(f"otel-rl: recording run {run_id}{shown}\n")


_MODEL_OPERATIONS = ("chat", "text_completion", "generate_content", "embeddings")
_PHASES = (
    "sample",
    "reward",
    "train",
    "sync",
    "generate",
    "log_probs",
    "forward",
    "backward",
    "optimizer",
    "data_wait",
    "checkpoint",
    "evaluate",
    "load",
    "weight_sync",
)


class _PickledByName(type(sys)):  # type: ignore[misc]  # types.ModuleType, without an import
    """This module: dill, with which ``datasets.map`` hashes a function, takes one outside of site-packages by value.

    An editable install is outside, and locks and the like cannot be pickled (dill 0.4, ``_dill.save_module``).
    """

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return __import__, (__name__,)


sys.modules[__name__].__class__ = _PickledByName
