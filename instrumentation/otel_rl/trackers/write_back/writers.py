"""How each tracker takes the figures of a step, with a step axis of its own; the program's axis stays as it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.core import clock
from otel_rl.process import process_identity
from otel_rl.telemetry import lifecycle
from otel_rl.trackers.keys import PREFIX
from otel_rl.trackers.mlflow import following
from otel_rl.trackers.mlflow.names import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STEP, RUN_ID = f"{PREFIX}step", f"{PREFIX}run_id"
_names = Names()


def to_wandb(run: Any, step: int, figures: Mapping[str, float], *, is_first: bool) -> None:
    """Add to the row that the program commits next: a row of ours would move the program's step on."""
    if is_first:
        run.define_metric(STEP, hidden=True)
        run.define_metric(f"{PREFIX}*", step_metric=STEP)
        run.config.update({RUN_ID: process_identity.current().id}, allow_val_change=True)
    run.log({**figures, STEP: step}, commit=False)


def to_trackio(run: Any, step: int, figures: Mapping[str, float], *, is_first: bool) -> None:
    """Add a row at the step that the program logged last: a later one would move its counter on."""
    if is_first:
        figures = {**figures, RUN_ID: str(process_identity.current().id)}  # type: ignore[dict-item]
    last = getattr(run, "_next_step", 1) - 1
    run.log({**figures, STEP: step}, step=max(last, 0))


def to_tensorboard(writer: Any, step: int, figures: Mapping[str, float], *, is_first: bool) -> None:
    """Add values at our step: each tag has an axis of its own."""
    if writer.file_writer is None:
        raise ValueError("the writer is closed")
    if is_first:
        writer.add_text(RUN_ID, str(process_identity.current().id), step)
    for key, value in figures.items():
        writer.add_scalar(key, value, step)
    if lifecycle.is_ending:
        writer.flush()


def to_mlflow(target: tuple[Any, str], step: int, figures: Mapping[str, float], *, is_first: bool) -> None:
    """Write to a server with our client, which waits for nobody, and to stores in files with the program's."""
    client, run_id = target
    address = str(getattr(getattr(client, "_tracking_client", None), "tracking_uri", ""))
    if following.follower is not None and address.startswith("http"):
        following.follower.write(run_id, step, figures)
        return
    entities: Any = sys.modules["mlflow.entities"]
    if is_first:
        client.set_tag(run_id, RUN_ID, str(process_identity.current().id))
    now = clock.now() // 1_000_000
    metrics = [entities.Metric(_names.of(key), float(value), now, step) for key, value in figures.items()]
    client.log_batch(run_id, metrics=metrics)


#: Tracker -> what writes to it.
WRITERS: Mapping[str, Callable[..., None]] = {
    "wandb": to_wandb,
    "mlflow": to_mlflow,
    "tensorboard": to_tensorboard,
    "trackio": to_trackio,
}
