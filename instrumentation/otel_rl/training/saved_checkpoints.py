"""The checkpoints that this process has saved, and what has become of the latest ones at its end."""

from __future__ import annotations

import os
import time
from collections import deque
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.context import get_current

from otel_rl.process import process_identity
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlCheckpointStateValues as State
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import deferral, lifecycle
from otel_rl.telemetry.attribute_values import number
from otel_rl.telemetry.scope import Scope
from otel_rl.training import steps

if TYPE_CHECKING:
    from otel_rl.telemetry.deferral import Moment

_scope = Scope("checkpoints")
#: Most checkpoints that are looked for at the end, the latest ones.
MOST = 32
#: Most seconds of that: a file system may answer slowly.
_LONGEST_CHECK = 0.05
#: Most files of a folder whose sizes are added up.
_MOST_FILES = 4096


class _Saved(NamedTuple):
    number: int
    path: str


_saved: deque[_Saved] = deque(maxlen=MOST)
_numbers = count(1)
_best: dict[str, Any] = {}


def is_listed_here() -> bool:
    """Return whether this process lists its checkpoints: of a checkpoint that all ranks write, only the first does."""
    return process_identity.current().rank in (None, 0)


def size_of(path: str) -> int | None:
    """Return the size in bytes of a file, or of the files in a folder; None where it cannot be read."""
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - no object per file
            return os.stat(path).st_size  # noqa: PTH116
        size = files = 0
        for folder, _, inside in os.walk(path):
            for file in inside:
                files += 1
                if files > _MOST_FILES:
                    return size
                size += os.stat(os.path.join(folder, file)).st_size  # noqa: PTH116, PTH118
    except OSError:
        return None
    return size


def add(path: str, file_format: str, size: int | None, seconds: float, at: Moment) -> None:
    """Record a checkpoint at ``path`` that has been saved ``at`` a moment, and look for it at the end."""
    path = os.path.abspath(path)  # noqa: PTH100 - the program may change its directory
    saved = _Saved(next(_numbers), path)
    _saved.append(saved)
    lifecycle.before_shutdown(check)
    here = steps.where()
    attributes = {
        names.RL_CHECKPOINT_NUMBER: saved.number,
        names.RL_CHECKPOINT_NAME: Path(path).name,
        names.RL_CHECKPOINT_FORMAT: file_format,
        names.RL_CHECKPOINT_SIZE: size,
        names.RL_CHECKPOINT_DURATION: seconds,
        names.RL_LOOP_ITERATION: here.iteration,
        names.RL_LOOP_NAME: here.loop.name if here.loop is not None else None,
    }
    context = get_current()
    deferral.post(
        Signal.LOGS,
        lambda: _scope.event(events.RL_CHECKPOINT_SAVED, attributes=attributes, context=context, timestamp=at.wall),
    )


def best(path: Any, metric: Any, value: Any) -> None:
    """Note what the trainer calls its best checkpoint, and the metric by which it compares them."""
    if isinstance(path, str) and isinstance(metric, str):
        _best[names.RL_CHECKPOINT_BEST_NAME] = Path(path).name
        _best[names.RL_CHECKPOINT_BEST_METRIC] = metric
        _best[names.RL_CHECKPOINT_BEST_VALUE] = number(value)


def check() -> None:
    """Record which of the latest checkpoints are still there; the latest ones first, for as long as that may take."""
    until = time.monotonic() + _LONGEST_CHECK
    states: dict[int, str] = {}
    seen: set[str] = set()
    for saved in reversed(_saved):
        if time.monotonic() > until:
            break
        if saved.path in seen:
            states[saved.number] = State.OVERWRITTEN
        else:
            seen.add(saved.path)
            states[saved.number] = State.KEPT if os.path.exists(saved.path) else State.DELETED  # noqa: PTH110
    body = {names.RL_CHECKPOINT_NUMBER: list(states), names.RL_CHECKPOINT_STATE: list(states.values())}
    _scope.event(events.RL_CHECKPOINT_CHECKED, body=body, attributes=_best)
    _saved.clear()


def _forget() -> None:
    global _numbers
    _saved.clear()
    _best.clear()
    _numbers = count(1)


lifecycle.after_fork_in_child(_forget)
