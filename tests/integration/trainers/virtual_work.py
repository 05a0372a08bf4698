"""A clock that only work moves: what a step consists of is then exact, however slow the machine is."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from otel_rl.core import clock as clocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Length of each piece of work in ns.
PIECE = 200_000_000


class Piece(NamedTuple):
    """Work of one kind; times in ns since the epoch."""

    kind: str
    start: int
    end: int


class Clock:
    """Stands for both clocks of the recordings."""

    def __init__(self) -> None:
        self._wall = time.time_ns()
        self._began = self._wall
        self.pieces: list[Piece] = []

    def counter(self) -> float:
        return (self._wall - self._began) * 1e-9

    def now(self) -> int:
        return self._wall

    def work(self, kind: str) -> None:
        """A piece of work of this kind."""
        start, self._wall = self._wall, self._wall + PIECE
        self.pieces.append(Piece(kind, start, self._wall))


@contextmanager
def injected(trainer: Any, clock: Clock, monkeypatch: Any) -> Iterator[None]:
    """Make every kind of work of ``trainer`` take a piece of time: data, generation, forward, backward, optimizer."""
    monkeypatch.setattr(clocks, "counter", clock.counter)
    monkeypatch.setattr(clocks, "now", clock.now)
    generating: list[bool] = []
    model = trainer.model

    def generate(*args: Any, **kwargs: Any) -> Any:
        clock.work("sample")
        generating.append(True)
        try:
            return original(*args, **kwargs)
        finally:
            generating.pop()

    def forward(*_: Any) -> None:
        if not generating:
            clock.work("forward" if torch.is_grad_enabled() and model.training else "log_probs")

    original = getattr(model, "generate", None)
    if original is not None:
        model.generate = generate
    trainer.data_collator = _working(trainer.data_collator, clock, "data_wait")
    last = [parameter for parameter in model.parameters() if parameter.requires_grad][-1]
    hooks = [
        model.register_forward_pre_hook(forward),
        last.register_post_accumulate_grad_hook(lambda _: clock.work("backward")),
        register_optimizer_step_pre_hook(lambda *_: clock.work("optimizer")),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _working(function: Callable[..., Any], clock: Clock, kind: str) -> Callable[..., Any]:
    def working(*args: Any, **kwargs: Any) -> Any:
        clock.work(kind)
        return function(*args, **kwargs)

    return working
