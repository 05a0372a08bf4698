"""The raw scores that TRL's trainers compute, one row per sample and one column per reward function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.semconv import spans
from otel_rl.training import rewards, trainer_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Rows and columns.
_MATRIX = 2


class RewardScores:
    """Scores as the trainer computes them; each rank records those of its own samples."""

    def __init__(self) -> None:
        self._on_device: list[tuple[Sequence[str], Any]] = []
        #: Those of the latest batch by function, until somebody takes them.
        self._latest: dict[str, list[float]] | None = None

    def calculated(self, trainer: Any, scores: Any) -> None:
        """``scores`` has the rows of all ranks, rank after rank; sums over the functions are left out."""
        # Of an earlier batch, which the device has computed long since.
        self.scored()
        names = getattr(trainer, "reward_func_names", ())
        if not scope.enabled or not names or trainer_loop.current().is_open(spans.RL_EVALUATE):
            return
        if scores.ndim != _MATRIX or scores.shape[1] != len(names):
            return
        accelerator = trainer.accelerator
        samples = len(scores) // accelerator.num_processes
        first = accelerator.process_index * samples
        scores = scores[first : first + samples]
        if scores.device.type == "cpu":
            self._record(names, scores)
        else:
            self._on_device.append((names, scores))

    def scored(self) -> None:
        """Record the scores, which the trainer has read itself: reading them now waits for nothing."""
        while self._on_device:
            self._record(*self._on_device.pop())

    def take(self) -> dict[str, list[float]] | None:
        """Return the scores of the samples of this process by function, once."""
        latest, self._latest = self._latest, None
        return latest

    def _record(self, names: Sequence[str], scores: Any) -> None:
        self._latest = dict(zip(names, scores.T.tolist(), strict=True))
        rewards.record(scope, self._latest)


scores = RewardScores()
