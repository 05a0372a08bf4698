"""The checkpoints of a run, from the records of those who saved them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none, list_of

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log, Process


_AT_THE_END = names.RL_CHECKPOINT_NUMBER, names.RL_CHECKPOINT_STATE, names.RL_CHECKPOINT_SIZE


@dataclass(slots=True)
class Checkpoint:
    """One checkpoint; ``size`` in bytes, ``seconds`` of saving, ``best`` says by which metric it is the best."""

    name: str
    who: str
    step: int | None
    file_format: str
    size: float | None
    seconds: float | None
    state: str | None = None
    best: str = ""
    #: In bytes, at the end.
    left: float | None = None


def saved(collected: Collected) -> list[Checkpoint]:
    """Return the checkpoints in the order in which they were saved, with what their processes found at their ends."""
    found: dict[tuple[Process, int | None], Checkpoint] = {}
    for log in collected.tables.events(events.RL_CHECKPOINT_SAVED.name):
        get = log.attributes.get
        found[log.process, int_or_none(get(names.RL_CHECKPOINT_NUMBER))] = Checkpoint(
            str(get(names.RL_CHECKPOINT_NAME) or ""),
            log.process.label,
            int_or_none(get(names.RL_LOOP_ITERATION)),
            str(get(names.RL_CHECKPOINT_FORMAT) or ""),
            float_or_none(get(names.RL_CHECKPOINT_SIZE)),
            float_or_none(get(names.RL_CHECKPOINT_DURATION)),
        )
    for log in collected.tables.events(events.RL_CHECKPOINT_CHECKED.name):
        numbers, states, sizes = (list_of(log.body, name) for name in _AT_THE_END)
        for number, state, size in zip_longest(numbers, states, sizes):
            checkpoint = found.get((log.process, int_or_none(number)))
            if checkpoint is not None:
                checkpoint.state, checkpoint.left = str(state), float_or_none(size)
        _mark_best(log, [one for (process, _), one in found.items() if process is log.process])
    return list(found.values())


def _mark_best(log: Log, checkpoints: list[Checkpoint]) -> None:
    get = log.attributes.get
    best, metric = get(names.RL_CHECKPOINT_BEST_NAME), get(names.RL_CHECKPOINT_BEST_METRIC)
    value = float_or_none(get(names.RL_CHECKPOINT_BEST_VALUE))
    checkpoint = next((one for one in reversed(checkpoints) if best and one.name == best), None)
    if checkpoint is not None:
        checkpoint.best = str(metric) if value is None else f"{metric} {value:.6g}"
