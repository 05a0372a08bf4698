"""What the trainer makes of its samples: it adds the advantage to the row of the rollout."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.api import outcomes
from otel_rl.instrumentors.verl import queue
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral
from otel_rl.telemetry.scope import enabled
from otel_rl.training import trajectory_changes, trajectory_shares
from otel_rl.training.trajectory_shares import TrajectoryName

if TYPE_CHECKING:
    from collections.abc import Sequence


def computed(data: Any, *_: Any, batch_keys: Sequence[str] = (), **__: Any) -> None:
    """Take the advantages of a batch, whose tensors the trainer has in the host's memory."""
    batch = getattr(data, "batch", None)
    if not enabled() or batch is None or not batch_keys:
        return
    advantages, mask = batch["advantages"], batch["response_mask"]
    if advantages.device.type != "cpu" or len(advantages) != len(batch_keys):
        return
    means = (advantages * mask).sum(-1) / mask.sum(-1).clamp(min=1)
    deferral.post(Signal.LOGS, partial(_tell, list(batch_keys), means.tolist()))


def _tell(keys: Sequence[str], advantages: Sequence[float]) -> None:
    # An output of several of one trajectory: they have its advantage.
    by_rollout = {key.rpartition("_")[0]: advantage for key, advantage in zip(keys, advantages, strict=True)}
    for rollout, advantage in by_rollout.items():
        age = queue.age_of(rollout.rpartition("_")[0])
        said = {"trained": True, "advantage": advantage, "estimator": "", "age": age}
        trajectory_shares.tell_by_name(TrajectoryName(None, rollout), partial(outcomes.put, said=said))
    trajectory_changes.changed()
