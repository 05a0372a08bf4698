"""The trainers: their steps and the parts of them by the timer, their settings, and what they log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import spans
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.telemetry import Scope
from otel_rl.training import systems, timed_loop
from otel_rl.training.configuration import record_configuration
from otel_rl.training.timed_loop import TimedLoop

if TYPE_CHECKING:
    from otel_rl.training.phases import PhaseHandle

SYSTEM = "skyrl"
scope = Scope(SYSTEM)
#: Names of the timer that are phases, of all trainers of 0.4. The asynchronous one evaluates after its step.
_PHASES = {
    "generate": spans.RL_SAMPLE,
    "wait_for_generation_buffer": spans.RL_SAMPLE,
    "fwd_logprobs_values_reward": spans.RL_LOG_PROBS,
    "train_critic_and_policy": spans.RL_TRAIN,
    # Of the asynchronous trainer: log-probabilities, advantages and the update.
    "run_training": spans.RL_TRAIN,
    "sync_weights": spans.RL_SYNC,
    "eval": spans.RL_EVALUATE,
    "save_checkpoints": spans.RL_CHECKPOINT,
    "save_hf_model": spans.RL_CHECKPOINT,
    # Of supervised fine-tuning.
    "data_loading": spans.RL_DATA_WAIT,
    "forward_backward": spans.RL_TRAIN,
    "optim_step": spans.RL_OPTIMIZER,
    "save_checkpoint": spans.RL_CHECKPOINT,
}
#: Parts without which the step goes on with the next time that the timer says "step": it samples once more.
_UPDATES = frozenset({"train_critic_and_policy", "run_training", "forward_backward"})


class _Loop(TimedLoop):
    """The steps of one call of ``train``."""

    _has_trained = False

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        super().__init__(scope, _PHASES, self._next, trainer.cfg.trainer.policy.model.path)

    def _next(self) -> int:
        """Return the number of the step that begins; a training on made-up data counts none."""
        number = int(self.trainer.global_step)
        return number if self.step is not None else max(number, self.last + 1)

    def part_begins(self, name: str) -> TimedLoop | PhaseHandle | None:
        """Begin the step, or a phase of it."""
        self._has_trained = self._has_trained or name in _UPDATES
        return super().part_begins(name)

    def step_ended(self, error: BaseException | None) -> None:
        """End the step, unless it goes on to sample."""
        if error is not None or self._has_trained:
            super().step_ended(error)
            self._has_trained = False

    def leave(self, error: BaseException | None = None) -> None:
        """End the loop; a step that has sampled in vain was none."""
        if error is None:
            self.discard()
        super().leave(error)


def current_step() -> int | None:
    """Return the number of the step that the trainer of the caller works on; None without a trainer."""
    loop = timed_loop.running()
    return int(loop.trainer.global_step) if isinstance(loop, _Loop) else None


def train_begins(trainer: Any, *_: Any, **__: Any) -> _Loop | None:
    """Begin the loop of a trainer."""
    if not scope.enabled:
        return None
    version = getattr(sys.modules.get("skyrl"), "__version__", None)
    systems.configured(type(trainer), SYSTEM, version, RlRoleValues.DRIVER)
    is_supervised = hasattr(trainer, "sft_cfg")
    timed_loop.name_algorithm("sft" if is_supervised else trainer.cfg.trainer.algorithm.advantage_estimator)
    loop = _Loop(trainer)
    loop.enter()
    return loop


def configured(_: Any, *__: Any, config: Any = None, **___: Any) -> None:
    """Record the settings that the trackers are given."""
    if config is not None:
        record_configuration(SYSTEM, config)
