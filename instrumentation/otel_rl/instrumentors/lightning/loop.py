"""The steps of one ``fit``, and where in a batch its trainer is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.training import trainer_loop
from otel_rl.training.trainer_loop import TrainerLoop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.telemetry.deferral import Moment


class LightningLoop(TrainerLoop):
    """The steps of one call of ``Trainer.fit``."""

    def __init__(self, attributes: Mapping[str, Any]) -> None:
        super().__init__(attributes=attributes)
        #: Since when it waits for the next batch.
        self.waits_since: Moment | None = None
        #: Between the hooks `on_train_batch_start` and `on_train_batch_end`.
        self.is_in_batch = False
        #: In a `training_step` that calls backward and the optimizers itself.
        self.is_in_manual_step = False


def current() -> LightningLoop | None:
    """Return the loop of the ``fit`` that the caller runs in; None in other loops, and outside of one."""
    loop = trainer_loop.current()
    return loop if isinstance(loop, LightningLoop) else None
