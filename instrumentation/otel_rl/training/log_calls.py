"""Log calls on their way to an I/O thread, and where they come from."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.context import Context

    from otel_rl.telemetry import Scope
    from otel_rl.training.logged_values import Scalar


class Source(IntEnum):
    """Where log calls come from; for one key the lowest wins."""

    #: :func:`otel_rl.metric`.
    PRODUCER = 0
    #: What the trainer logs, as its callbacks get it.
    TRAINER = 1
    LIGHTNING = 2
    ACCELERATE = 3
    DEEPSPEED = 4
    RAY = 5
    WANDB = 6
    MLFLOW = 7
    SWANLAB = 8
    TRACKIO = 9
    TENSORBOARD = 10
    #: What PyTorch itself knows of a guessed step.
    TORCH = 11

    @property
    def is_tracker(self) -> bool:
        """Whether it takes what programs show: texts too, prompts and completions among them."""
        return Source.WANDB <= self <= Source.TENSORBOARD


class LogCall(NamedTuple):
    """One log call: ``first`` is the first step that it covers, ``timestamp`` in ns since the epoch."""

    scope: Scope
    source: Source
    iteration: int | None
    first: int | None
    values: Mapping[str, Scalar]
    context: Context
    timestamp: int


class OwnValue(NamedTuple):
    """One value of the program's own, which is in the record of its step or in none."""

    logged: LogCall
    #: False where the record of its step has it.
    is_told: bool
    #: Its loop is known, and in the context of the call.
    has_loop: bool


class SingleValues:
    """Values that one source logs one by one at one step, until an I/O thread records what has come so far."""

    __slots__ = ("call", "caller", "posted", "values")

    def __init__(self, call: LogCall, caller: Context) -> None:
        self.call = call
        self.caller = caller
        self.values: deque[tuple[str, Scalar]] = deque()
        #: Whether a recording is on its way.
        self.posted = False

    def is_of(self, scope: Scope, iteration: int | None, caller: Context) -> bool:
        """Return whether a value that was logged in the context ``caller`` belongs here."""
        return self.call.scope is scope and self.call.iteration == iteration and self.caller is caller

    def take(self) -> Iterator[LogCall]:
        """Return what has come as calls: one, and one more for each time that a key comes again."""
        # First: what comes from here on is posted anew.
        self.posted = False
        values: dict[str, Scalar] = {}
        while self.values:
            key, value = self.values.popleft()
            if key in values:
                yield self.call._replace(values=values)
                values = {}
            values[key] = value
        if values:
            yield self.call._replace(values=values)
