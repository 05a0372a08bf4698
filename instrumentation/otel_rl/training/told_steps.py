"""Steps that a library tells which loops of a program's own are written with, such as DeepSpeed.

What lies in them comes from PyTorch, as of steps that are guessed (:mod:`otel_rl.training.guessed_steps`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.training.guessed_loop import UnmarkedLoop

if TYPE_CHECKING:
    from weakref import ref

    from otel_rl.training.guessed_records import MissingGradients


class Readings(Protocol):
    """What is read of the objects of a library; nothing of it waits for a device."""

    def size(self, optimizer: Any) -> int:
        """Return the number of parameters."""

    def first_parameter(self, optimizer: Any) -> object:
        """Return one that no optimizer of another model has."""

    def learning_rate(self, optimizer: Any) -> float | None:
        """Return that of the first group; None where reading it would wait."""

    def missing_gradients(self, optimizer: Any) -> MissingGradients | None:
        """Return how many parameters have no gradient; None while each has always had one."""

    def value(self, loss: Any) -> float | None:
        """Return the value of a loss; None where reading it would wait."""

    def batch_size(self, batch: Any) -> tuple[int | None, int]:
        """Return the samples of a batch, None where it has no shape, and its tokens, 0 where it has none."""


class EngineReadings(Protocol):
    """What is read of the objects by which a library tells the steps; nothing of it waits for a device."""

    def steps_made(self, engine: Any) -> int:
        """Return the number of the latest step."""

    def size(self, engine: Any) -> int:
        """Return the number of parameters."""

    def first_parameter(self, engine: Any) -> object:
        """Return one that no other model has."""

    def optimizer(self, engine: Any) -> Any:
        """Return what has the learning rate."""

    def gradient_norm(self, engine: Any) -> Any:
        """Return that of the latest step, before clipping; None where it is not known."""


class ToldLoop(UnmarkedLoop):
    """The steps that a library tells; a trainer that uses the library knows them better."""

    source = LoopSource.KNOWN


class Told(NamedTuple):
    """Who tells the steps: the object made first, and how it is read."""

    first: ref[Any]
    engines: EngineReadings

    def next_number(self, leader: Any) -> int | None:
        """Return the number of the next step of ``leader``, before one leads of the first; None where that is gone."""
        engine = leader if leader is not None else self.first()
        return self.engines.steps_made(engine) + 1 if engine is not None else None
