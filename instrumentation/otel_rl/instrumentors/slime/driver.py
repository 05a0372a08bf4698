"""The loop of the driver, ``train.py`` or ``train_async.py``: its steps by the calls it makes, its phases by its waits.

A step is a turn of that loop and has the number of the samples that it trains on (``rollout_id``). The synchronous loop
begins it with the call for its samples. The asynchronous one calls for the next samples at its beginning, while those
that it trains on are there: a wait for the next ones lies at its end.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from weakref import ref

from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope
from otel_rl.training import systems, timed_loop
from otel_rl.training.configuration import record_configuration
from otel_rl.training.timed_loop import TimedLoop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.training.phases import PhaseHandle

SYSTEM = "slime"
scope = Scope(SYSTEM)
#: Methods of the manager, and of the handle of the ranks that train.
_SAMPLE, _EVALUATE, _DISPOSE = "generate", "eval", "dispose"
_TRAIN, SAVE, SYNC = "async_train", "save_model", "update_weights"
_PHASES = {
    _SAMPLE: spans.RL_SAMPLE,
    _EVALUATE: spans.RL_EVALUATE,
    _TRAIN: spans.RL_TRAIN,
    SAVE: spans.RL_CHECKPOINT,
    SYNC: spans.RL_SYNC,
}
#: Calls whose results are awaited at once, at most; a loop makes three.
_MOST_CALLS = 16


class _DriverLoop(TimedLoop):
    """The steps of one driver."""

    def __init__(self, args: Any, manager: Any) -> None:
        super().__init__(scope, _PHASES, lambda: self.last, args.hf_checkpoint)
        #: Weakly: it ends when the program lets go of it.
        self.manager = ref(manager)
        #: Steps whose samples have been called for, and that have not begun to train.
        self._ahead: list[int] = []
        #: Id of a result -> what was called, the oldest first. The result itself would stay in Ray's memory.
        self._calls: OrderedDict[bytes, str] = OrderedDict()

    def turn(self, number: int) -> None:
        """Begin step ``number``, unless it is open."""
        if self.step is None or self.step.iteration != number:
            self.turn_ended()
            self.begin_step(number, scope)

    def turn_ended(self) -> None:
        """End the step well, unless it has failed."""
        if self.step is not None:
            self.step_ended(None)

    def calls_for_samples(self, number: int) -> None:
        """Begin the step of these samples; one whose samples were called for before and wait to be trained on first."""
        self._ahead.append(number)
        self.turn(self._ahead[0])
        if self._ahead[0] == number:
            # There is nothing else to do but to wait for them.
            self.part_begins(_SAMPLE)

    def trains(self, number: int) -> None:
        """Begin to train on the samples of step ``number``."""
        self._ahead = [ahead for ahead in self._ahead if ahead > number]
        self.turn(number)
        self.part_begins(_TRAIN)

    def called(self, name: str, result: Any) -> None:
        """Remember what will be awaited."""
        self._calls[result.binary()] = name
        if len(self._calls) > _MOST_CALLS:
            self._calls.popitem(last=False)

    def awaits(self, results: Any) -> str | None:
        """Return what was called for the results that the program waits for; None for what is no phase."""
        first = results[0] if isinstance(results, list) and results else results
        binary = getattr(first, "binary", None)
        return None if binary is None or not self._calls else self._calls.pop(binary(), None)


def _running() -> _DriverLoop | None:
    loop = timed_loop.running()
    return loop if isinstance(loop, _DriverLoop) else None


def manager_made(made: tuple[Any, Any], args: Any, *_: Any, **__: Any) -> None:
    """Begin the loop: the driver has made its manager."""
    if not scope.enabled or _running() is not None:
        return
    systems.configured(_DriverLoop, SYSTEM, None, RlRoleValues.DRIVER)
    timed_loop.name_algorithm(args.advantage_estimator)
    record_configuration(SYSTEM, vars(args))
    _DriverLoop(args, made[0]).enter()


def call_begins(
    handle: Any,
    method_name: str,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *_: Any,
    **__: Any,
) -> tuple[_DriverLoop, str] | None:
    """Follow a call of the manager: for samples of a step, for an evaluation, or the last one."""
    loop = _running()
    if loop is None or loop.manager() is not handle:
        return None
    if method_name == _SAMPLE:
        loop.calls_for_samples(int(args[0] if args else (kwargs or {})["rollout_id"]))
    elif method_name == _EVALUATE:
        loop.part_begins(_EVALUATE)
    elif method_name == _DISPOSE:
        loop.turn_ended()
        loop.leave()
    return (loop, method_name) if method_name in _PHASES else None


def call_ended(call: tuple[_DriverLoop, str], result: Any, error: BaseException | None) -> None:
    """Remember its result; a call returns at once."""
    loop, name = call
    if error is None:
        loop.called(name, result)


def train_begins(_: Any, rollout_id: int, *__: Any, **___: Any) -> None:
    """Begin to train, before the ranks are called."""
    loop = _running()
    if loop is not None:
        loop.trains(int(rollout_id))


def train_submitted(results: Sequence[Any], *_: Any, **__: Any) -> None:
    """Remember the result of the first rank."""
    loop = _running()
    if loop is not None and results:
        loop.called(_TRAIN, results[0])


def wait_begins(object_refs: Any, *_: Any, **__: Any) -> tuple[_DriverLoop, str] | None:
    """Begin the phase of what the driver waits for, where its call has not."""
    loop = _running()
    name = None if loop is None else loop.awaits(object_refs)
    if loop is None or name is None:
        return None
    loop.part_begins(name)
    return loop, name


def wait_ended(wait: tuple[_DriverLoop, str], _: Any, error: BaseException | None) -> None:
    """End the phase, and the step where it failed."""
    loop, name = wait
    loop.end(_PHASES[name], error)
    if error is not None:
        loop.finish_step(error)


def part_begins(name: str, *_: Any, **__: Any) -> TimedLoop | PhaseHandle | None:
    """Begin a phase that a method of the ranks' handle is."""
    loop = _running()
    return None if loop is None else loop.part_begins(name)
