"""The checkpoints of a run, from the records of those who saved them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlCheckpointStateValues as State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.store.reader import Log

#: Latest checkpoints that are kept.
_MOST = 1000


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


@dataclass(slots=True)
class Checkpoints:
    """The latest checkpoints, in the order in which they were saved."""

    #: By process and by its number there.
    _by_number: OrderedDict[tuple[int, int], Checkpoint] = field(default_factory=OrderedDict)
    left_out: int = 0

    @property
    def saved(self) -> list[Checkpoint]:
        """All that are known."""
        return list(self._by_number.values())

    def add_log(self, log: Log) -> None:
        """Take in a checkpoint, or what a process found of its checkpoints at its end; others are ignored."""
        if log.event == events.RL_CHECKPOINT_SAVED.name:
            self._add_saved(log)
        elif log.event == events.RL_CHECKPOINT_CHECKED.name:
            self._add_states(log)

    def _add_saved(self, log: Log) -> None:
        get = log.attributes.get
        number = get(names.RL_CHECKPOINT_NUMBER)
        if not isinstance(number, int):
            return
        self._by_number[id(log.process), number] = Checkpoint(
            str(get(names.RL_CHECKPOINT_NAME) or ""),
            log.process.label,
            _number(get(names.RL_LOOP_ITERATION)),
            str(get(names.RL_CHECKPOINT_FORMAT) or ""),
            _number(get(names.RL_CHECKPOINT_SIZE)),
            _number(get(names.RL_CHECKPOINT_DURATION)),
        )
        if len(self._by_number) > _MOST:
            self._by_number.popitem(last=False)
            self.left_out += 1

    def _add_states(self, log: Log) -> None:
        body: Mapping[str, Any] = log.body if isinstance(log.body, dict) else {}
        numbers, states = body.get(names.RL_CHECKPOINT_NUMBER), body.get(names.RL_CHECKPOINT_STATE)
        if isinstance(numbers, list) and isinstance(states, list):
            for number, state in zip(numbers, states, strict=False):
                checkpoint = self._by_number.get((id(log.process), number))
                if checkpoint is not None and isinstance(state, str):
                    checkpoint.state = state
        self._mark_best(log)

    def _mark_best(self, log: Log) -> None:
        get = log.attributes.get
        best, metric = get(names.RL_CHECKPOINT_BEST_NAME), get(names.RL_CHECKPOINT_BEST_METRIC)
        ours = [one for (process, _), one in self._by_number.items() if process == id(log.process)]
        for checkpoint in reversed(ours):
            if best and checkpoint.name == best:
                value = _number(get(names.RL_CHECKPOINT_BEST_VALUE))
                checkpoint.best = str(metric) if value is None else f"{metric} {value:.6g}"
                return

    @property
    def kept(self) -> int:
        """How many were there at the end of their process."""
        return sum(checkpoint.state == State.KEPT for checkpoint in self._by_number.values())


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) else None
