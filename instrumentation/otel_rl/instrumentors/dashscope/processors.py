"""Rollouts and rewards of Model Studio: each call of ``process`` of the program's own classes.

A class is known when it is made. Its outermost ``process`` is followed, also one that it inherits from a class of the
program; a call of a base by ``super()`` is part of it. Parts of a reward are its functions with ``sub_reward_func``.
"""

from __future__ import annotations

import functools
import inspect
from itertools import islice
from typing import TYPE_CHECKING, Any

from opentelemetry import baggage

from otel_rl.api import program_metrics, sample_ids, score_forms
from otel_rl.api.inherited_methods import wrap_method
from otel_rl.api.reward_functions import RewardFunction
from otel_rl.api.rollouts import Rollout
from otel_rl.inference import ownership
from otel_rl.inference.fields import fields_of
from otel_rl.instrumentors.followed_calls import followed
from otel_rl.telemetry import Scope, guard
from otel_rl.telemetry.context import attach, detach

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token
    from types import ModuleType

    from opentelemetry.context import Context

    from otel_rl.api.operations import ProducerOperation
    from otel_rl.instrumentors.followed_calls import Begin
    from otel_rl.instrumentors.patching import Patches
    from otel_rl.telemetry.deferral import Moment

scope = Scope("dashscope")
_CLASS = guard("dashscope.class")
_PROCESS = "process"
_REWARDS = {"AbstractRewardProcessor", "AbstractGroupRewardProcessor"}
#: Most classes that are followed, and most metrics of a rollout that are read.
_MOST_CLASSES, _MOST_METRICS = 512, 64
#: Marks of the package on the functions of a reward.
_IS_PART, _NAME_OF_PART, _WEIGHT_OF_PART = "_is_sub_reward_func", "_sub_reward_name", "_sub_weight"
#: Names in the package's baggage, without their common beginning.
_BAGGAGE, _IDS = "bailian.agentic_rl.", ("rollout_id", "sample_id", "attempt_id")


def patch_processors(module: ModuleType, patches: Patches) -> None:
    """Follow the classes below ``AbstractProcessor``, those that are made later too."""
    base = module.AbstractProcessor

    def _init_subclass(kind: type, **kwargs: Any) -> None:
        super(base, kind).__init_subclass__(**kwargs)
        _follow(kind, base, patches)

    replacement: Any = functools.wraps(object.__init_subclass__)(_init_subclass)
    patches.replace(module, "AbstractProcessor.__init_subclass__", lambda _: classmethod(replacement), required=True)
    _follow(base, base, patches)


def patch_rewards(module: ModuleType, patches: Patches) -> None:
    """Follow classes with ``reward_func``, which get their ``process`` later; each object collects its functions."""
    base = module.AbstractProcessor

    def _made(processor: Any) -> None:
        _follow(_outermost(type(processor)), base, patches)

    patches.observe(module, "AbstractRewardProcessor._collect_functions", before=_made, required=True)


def _outermost(kind: type) -> type:
    """Return the class whose ``process`` its objects call."""
    return next(above for above in kind.__mro__ if _PROCESS in vars(above))


def _follow(kind: type, base: type, patches: Patches) -> None:
    """Follow the methods of ``kind`` that the package calls, and those of the classes below."""
    with _CLASS:
        owner = _outermost(kind)
        method = vars(owner)[_PROCESS]
        # That of a class between is followed there.
        is_own = owner is kind or not issubclass(owner, base)
        if is_own and inspect.isfunction(method) and not getattr(method, "__isabstractmethod__", False):
            _replace(kind, _PROCESS, functools.partial(_processed, kind), patches)
        for name, member in list(vars(kind).items()):
            if inspect.isfunction(member) and hasattr(member, _IS_PART):
                _replace(kind, name, functools.partial(_part, member), patches)
    classes: list[type] = type.__subclasses__(kind)
    for below in classes:
        _follow(below, base, patches)


def _replace(kind: type, name: str, begin: Begin, patches: Patches) -> None:
    if len(patches) < _MOST_CLASSES:
        patches.replace(
            kind, name, lambda method: wrap_method(kind, name, method, lambda raw: followed(raw, name, begin))
        )


def _processed(kind: type, given: Mapping[str, Any]) -> ProducerOperation | None:
    """Begin what a call of ``process`` is; None for a call of a base by ``super()``."""
    processor, *inputs = given.values()
    if ownership.suppressed() or _outermost(type(processor)) is not kind:
        return None
    forms = {base.__name__ for base in kind.__mro__}
    arguments = _with_ids(dict(islice(given.items(), 1, None)))
    if "AbstractRolloutProcessor" in forms:
        return ProcessorRollout(arguments)
    return ProcessorReward(processor, arguments, inputs[:1]) if forms & _REWARDS else None


def _part(function: Any, given: Mapping[str, Any]) -> ProducerOperation | None:
    processor, *inputs = given.values()
    if ownership.suppressed():
        return None
    around = _open.get((id(processor), *map(id, inputs[:1])))
    inside = None if around is None else around.context_inside
    name = f"{type(processor).__name__}/{getattr(function, _NAME_OF_PART)}"
    arguments = dict(islice(given.items(), 1, None))
    return PartOfReward(name, getattr(function, _WEIGHT_OF_PART), arguments, inside)


def _with_ids(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments; if they carry no ids, with those of the package's ``rollout_context``."""
    if any(sample_ids.of_arguments(arguments)):
        return arguments
    found = {name: baggage.get_baggage(_BAGGAGE + name) for name in _IDS}
    return {**{name: value for name, value in found.items() if value is not None}, **arguments}


class ProcessorRollout(Rollout):
    """A call of a rollout processor."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__(None, None, None, None, None, None, keep=False, arguments=arguments, is_named=True)
        self._failure: str | None = None

    def result(self, value: object) -> None:
        """Take the ``RolloutOutput``: its metrics, whether it reports a failure, and what a reward is given later."""
        super().result(value)
        self._failure = score_forms.failure_of(value)
        output = sample_ids.read(value, "agent_output")
        sample_ids.returned(output, self.name)
        for name, metric in islice(fields_of(sample_ids.read(output, "rollout_metrics")).items(), _MOST_METRICS):
            program_metrics.rollout_metric(name, metric)

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        """End it; a failure that the result reports counts like one that was raised."""
        super().end(self._failure if error is None else error, at)


#: Calls in progress, by the ids of processor and input: their parts may run in threads that have no context.
_open: dict[tuple[int, ...], ProcessorReward] = {}


class ProcessorReward(RewardFunction):
    """A call of a reward processor, of one sample or of a group."""

    def __init__(self, processor: object, arguments: dict[str, Any], inputs: list[Any]) -> None:
        super().__init__(type(processor).__name__, None, arguments, is_named=True)
        self._key = id(processor), *map(id, inputs)
        if self.context_inside is not None:
            _open[self._key] = self

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        """End it."""
        _open.pop(self._key, None)
        super().end(error, at)


class PartOfReward(RewardFunction):
    """A call of a function with ``sub_reward_func``, inside of the reward that it is a part of."""

    def __init__(self, name: str, weight: object, arguments: dict[str, Any], inside: Context | None) -> None:
        self._outer: Token[Context] | None = None if inside is None else attach(inside)
        super().__init__(name, weight, arguments, is_exclusive=False, is_named=True, is_part=True)

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        """End it."""
        super().end(error, at)
        detach(self._outer)
