"""What the optimizers of this process have done to their parameters: how often they stepped, and what they hold.

Only with ``OTEL_RL_SYNC_CHECK``. A hook of PyTorch that is common to all optimizers counts. Parameters are read when an
engine is compared with them, the parts on this rank only: no forward pass and no collective.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from otel_rl.internal_errors import guard
from otel_rl.telemetry import lifecycle
from otel_rl.training.tensor_sums import sums_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Most optimizers whose parameters are read; some programs have one per layer.
MAXIMUM_OPTIMIZERS = 1024
_SITE = guard("trainer_updates.hook")


class Parameters(NamedTuple):
    """The parameters of all optimizers at one time.

    Attributes:
        updates: steps of the optimizers before it.
        sums: of each optimizer, by its identity: the sums of its parameters, in their order.
    """

    updates: int
    sums: Mapping[int, tuple[int | None, ...]]

    def moved_since(self, before: Parameters) -> bool:
        """True where the parameters of every optimizer that was read both times differ.

        A critic that moves while the policy stands still says nothing of the policy, and which is which is not known.
        """
        both = self.sums.keys() & before.sums.keys()
        return bool(both) and all(self.sums[one] != before.sums[one] for one in both)


class TrainerUpdates:
    """Counts the steps of all optimizers of this process."""

    def __init__(self) -> None:
        self.updates = 0
        self._optimizers: WeakSet[Any] = WeakSet()
        #: By floating type of an engine: the parameters as read last, and those before the first step.
        self._latest: dict[Any, Parameters] = {}
        self._first: dict[Any, dict[int, tuple[int | None, ...]]] = {}
        self._watches = False

    def watch(self) -> Callable[[], None] | None:
        """Count from now on; returns what ends that, None where it is counted already or PyTorch is not loaded."""
        module = sys.modules.get("torch.optim.optimizer")
        if self._watches or module is None:
            return None
        handles = [
            module.register_optimizer_step_pre_hook(self._stepping),
            module.register_optimizer_step_post_hook(self._stepped),
        ]
        self._watches = True

        def end() -> None:
            for handle in handles:
                handle.remove()
            self._watches = False
            self.forget()

        return end

    def _stepping(self, optimizer: Any, *_: Any) -> None:
        with _SITE:
            if optimizer not in self._optimizers and len(self._optimizers) < MAXIMUM_OPTIMIZERS:
                self._optimizers.add(optimizer)
                for dtype, sums in self._first.items():
                    sums[id(optimizer)] = _sums(optimizer, dtype)

    def _stepped(self, *_: Any) -> None:
        self.updates += 1

    def compare_as(self, dtype: Any) -> None:
        """An engine holds parameters of this floating type: those of the optimizers are read as such."""
        self._first.setdefault(dtype, {})

    def first(self, dtype: Any) -> Parameters:
        """The parameters before the first step of their optimizers, of those that began since :meth:`compare_as`."""
        return Parameters(0, self._first.get(dtype, {}))

    def read(self, dtype: Any) -> Parameters | None:
        """The parameters as they are, in the floating type ``dtype``; read once between two steps.

        None where no optimizer has stepped, or where one stepped meanwhile.
        """
        updates = self.updates
        found = self._latest.get(dtype)
        if found is None or found.updates != updates:
            optimizers = list(self._optimizers)
            if not optimizers:
                return None
            sums = {id(one): _sums(one, dtype) for one in optimizers}
            if updates != self.updates:
                return None
            found = self._latest[dtype] = Parameters(updates, sums)
        return found

    def forget(self) -> None:
        """As if nothing had stepped."""
        self.updates = 0
        self._optimizers = WeakSet()
        self._latest.clear()
        self._first.clear()


def _sums(optimizer: Any, dtype: Any) -> tuple[int | None, ...]:
    return tuple(sums_of((one for group in optimizer.param_groups for one in group["params"]), dtype))


trainer_updates = TrainerUpdates()
lifecycle.after_fork_in_child(trainer_updates.forget)
