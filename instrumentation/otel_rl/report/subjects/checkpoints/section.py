"""The table of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.subjects.checkpoints import saved
from otel_rl.semconv.attributes import RlCheckpointStateValues as State

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.checkpoints.saved import Checkpoint

#: Checkpoints in the table, the latest.
_SHOWN = 1000
#: States in words: of what is not there it is not known whether it was moved.
_STATES = {State.DELETED: "moved or deleted"}


def build(collected: Collected, _charts: Charts) -> Section:
    """Return a table of the checkpoints, the latest first."""
    filler = "They come from torch.save, safetensors, torch.distributed.checkpoint, from 64 KiB on."
    section = Section("checkpoints", "Checkpoints", filler)
    checkpoints = saved.saved(collected)
    if not checkpoints:
        return section
    several = len({checkpoint.who for checkpoint in checkpoints}) > 1
    table = Table([">Step", "Checkpoint", "Format", ">Size", ">Took", "At the end", "Best by"])
    if several:
        table.columns = [*table.columns, "Who"]
    for checkpoint in reversed(checkpoints[-_SHOWN:]):
        table.rows.append(_row(checkpoint, several=several))
    earlier, kept = len(checkpoints) - len(table.rows), sum(one.state == State.KEPT for one in checkpoints)
    left = f"{human.amount(earlier, 'earlier one')} left out." if earlier else ""
    section.brief = f"{human.amount(len(checkpoints), 'checkpoint')} saved, {kept} kept at the end"
    slowest = max(checkpoints, key=lambda one: one.seconds or 0.0)
    if several and slowest.seconds:
        section.brief += f"; the longest took {human.duration(slowest.seconds)}, on {slowest.who}"
    section.blocks.append(PageBlock(note=left, table=table))
    return section


def _row(checkpoint: Checkpoint, *, several: bool) -> list[Value]:
    size = checkpoint.size
    row = [
        number_cell(checkpoint.step),
        Value(checkpoint.name),
        Value(checkpoint.file_format),
        Value(human.UNKNOWN) if size is None else Value(human.size(size), size),
        seconds_cell(checkpoint.seconds),
        Value(_STATES.get(checkpoint.state or "", checkpoint.state) or human.UNKNOWN),
        Value(checkpoint.best),
    ]
    return [*row, Value(checkpoint.who)] if several else row
