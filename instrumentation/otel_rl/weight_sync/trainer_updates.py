"""What the optimizers of this process have done to their parameters: how often they stepped, and what they hold.

Only with ``OTEL_RL_SYNC_CHECK``. Hooks of PyTorch that are common to all optimizers count. Parameters are read when an
engine is compared with them, the parts on this rank only: no forward pass and no collective.
"""

from __future__ import annotations

import sys
import threading
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from otel_rl.core.guard import guard
from otel_rl.telemetry import lifecycle
from otel_rl.weight_sync.tensor_sums import sums_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

#: Most optimizers whose parameters are read; some programs have one per layer.
MAXIMUM_OPTIMIZERS = 1024
_SITE = guard("trainer_updates.hook")


class Parameters(NamedTuple):
    """The parameters of all optimizers at one time.

    Attributes:
        updates: steps of the optimizers before it.
        sums: of each optimizer, by its number: the sums of its parameters, in their order.
        shapes: of each optimizer, by its number: the shapes of its parameters on this rank.
    """

    updates: int
    sums: Mapping[int, tuple[int | None, ...]]
    shapes: Mapping[int, tuple[Any, ...]]

    def since(self, first: Parameters) -> Parameters:
        """Return these, and those of ``first`` for the optimizers that are not in them."""
        return Parameters(self.updates, {**first.sums, **self.sums}, {**first.shapes, **self.shapes})

    def only(self, numbers: Iterable[int]) -> Parameters:
        """Those of the optimizers with these numbers."""
        kept = self.sums.keys() & set(numbers)
        return Parameters(
            self.updates,
            {number: self.sums[number] for number in kept},
            {number: self.shapes[number] for number in kept},
        )

    def moved_since(self, before: Parameters) -> bool:
        """Return whether the parameters of every optimizer that was read both times differ.

        A critic that moves while the policy stands still says nothing of the policy, and which is which is not known.
        """
        both = self.sums.keys() & before.sums.keys()
        return bool(both) and all(self.sums[number] != before.sums[number] for number in both)

    def is_laid_out_as(self, before: Parameters) -> bool:
        """Return whether every optimizer holds the same parts as before: else their sums say nothing of a step.

        Within ``summon_full_params`` of FSDP1 the parameters are whole, and outside a part of them.
        """
        both = self.shapes.keys() & before.shapes.keys()
        return all(self.shapes[number] == before.shapes[number] for number in both)


class TrainerUpdates:
    """Counts the steps of all optimizers of this process."""

    def __init__(self) -> None:
        self.updates = 0
        #: A number for each optimizer that has stepped: identities are used again.
        self._optimizers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._numbers = count()
        #: Steps that have begun.
        self._begun = 0
        #: Thread -> numbers of the optimizers whose steps have begun in it and not ended, the outermost first.
        self._stepping: dict[int, list[int]] = {}
        #: By floating type of an engine: the parameters as read last, and those before the first step.
        self._latest: dict[Any, Parameters] = {}
        self._first: dict[Any, Parameters] = {}
        self._watches = False

    def watch(self) -> Callable[[], None] | None:
        """Count from now on; returns what ends that, None where it is counted already or PyTorch is not loaded."""
        module = sys.modules.get("torch.optim.optimizer")
        if self._watches or module is None:
            return None
        handles = [
            module.register_optimizer_step_pre_hook(self._begin),
            module.register_optimizer_step_post_hook(self._end),
        ]
        self._watches = True

        def end() -> None:
            for handle in handles:
                handle.remove()
            self._watches = False
            self.forget()

        return end

    def _begin(self, optimizer: Any, *_: Any) -> None:
        with _SITE:
            number = self._optimizers.get(optimizer)
            is_new = number is None
            if number is None:
                number = self._optimizers[optimizer] = next(self._numbers)
            self._enter(number, is_within_another=_is_within_another(sys._getframe(1)))  # noqa: SLF001
            self._begun += 1
            if is_new and len(self._optimizers) <= MAXIMUM_OPTIMIZERS:
                for dtype, first in list(self._first.items()):
                    before = Parameters(0, {number: _sums(optimizer, dtype)}, {number: _shapes(optimizer)})
                    self._first[dtype] = before.since(first.only(self._optimizers.values()))

    def _enter(self, number: int, *, is_within_another: bool) -> None:
        thread = threading.get_ident()
        if not is_within_another:
            # Steps that raised, here or in a thread that is gone: nothing reported their end.
            for other, begun in list(self._stepping.items()):
                if other != thread and begun[0] == number:
                    self._stepping.pop(other, None)
            self._stepping[thread] = [number]
        else:
            self._stepping[thread] = [*self._stepping.get(thread, ()), number]

    def _end(self, optimizer: Any, *_: Any) -> None:
        with _SITE:
            number, thread = self._optimizers.get(optimizer), threading.get_ident()
            begun = self._stepping.get(thread, [])
            last = len(begun) - begun[::-1].index(number) - 1 if number in begun else 0
            # Of an optimizer that wraps another, only the outer step counts.
            if last:
                self._stepping[thread] = begun[:last]
                return
            self.updates += 1
            self._stepping.pop(thread, None)

    def compare_as(self, dtype: Any) -> None:
        """Read the parameters of the optimizers in this floating type, which an engine holds."""
        self._first.setdefault(dtype, Parameters(0, {}, {}))

    def first(self, dtype: Any) -> Parameters:
        """Return the parameters before their optimizers' first steps, of those that began since :meth:`compare_as`."""
        return self._first.get(dtype, Parameters(0, {}, {}))

    def read(self, dtype: Any) -> Parameters | None:
        """Return the parameters as they are, in the floating type ``dtype``; read once between two steps.

        None where no optimizer has stepped, or where one steps meanwhile.
        """
        updates, begun = self.updates, self._begun
        optimizers = self._apart()
        if not optimizers or self._is_stepping():
            return None
        shapes = {number: _shapes(optimizer) for number, optimizer in optimizers.items()}
        parameters = self._latest.get(dtype)
        if parameters is None or parameters.updates != updates or parameters.shapes != shapes:
            parameters = Parameters(
                updates, {number: _sums(optimizer, dtype) for number, optimizer in optimizers.items()}, shapes
            )
            if parameters.shapes != {number: _shapes(optimizer) for number, optimizer in optimizers.items()}:
                return None
        if (updates, begun) != (self.updates, self._begun):
            return None
        self._latest[dtype] = parameters
        return parameters

    def _is_stepping(self) -> bool:
        living = set(self._optimizers.values())
        return any(not living.isdisjoint(begun) for begun in list(self._stepping.values()))

    def _apart(self) -> dict[int, Any]:
        """Return the optimizers that are read, by number; not one whose parameters others hold, e.g. a wrapped one."""
        optimizers: dict[int, Any] = {}
        held: set[int] = set()
        for reference in self._optimizers.keyrefs()[:MAXIMUM_OPTIMIZERS]:
            optimizer = reference()
            number = None if optimizer is None else self._optimizers.get(optimizer)
            parameters = {id(parameter) for parameter in _parameters(optimizer)} if number is not None else set()
            if number is not None and not parameters <= held:
                held |= parameters
                optimizers[number] = optimizer
        for dtype, first in list(self._first.items()):
            self._first[dtype] = first.only(optimizers)
        return optimizers

    def forget(self) -> None:
        """As if nothing had stepped."""
        self.updates = 0
        self._optimizers = WeakKeyDictionary()
        self._stepping.clear()
        self._latest.clear()
        self._first.clear()


def _parameters(optimizer: Any) -> Iterator[Any]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _sums(optimizer: Any, dtype: Any) -> tuple[int | None, ...]:
    return tuple(sums_of(_parameters(optimizer), dtype))


def _shapes(optimizer: Any) -> tuple[Any, ...]:
    return tuple(tuple(parameter.shape) for parameter in _parameters(optimizer))


def _is_within_another(step: FrameType) -> bool:
    """Return whether ``step``, the frame of a step with hooks, was called by one: ``Optimizer.profile_hook_step``."""
    frame = step.f_back
    while frame is not None:
        if frame.f_code is step.f_code:
            return True
        frame = frame.f_back
    return False


trainer_updates = TrainerUpdates()
lifecycle.after_fork_in_child(trainer_updates.forget)
