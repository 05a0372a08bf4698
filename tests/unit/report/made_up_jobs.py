"""Jobs of several ranks with known durations, written as the pack writes them."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanContext, TraceFlags
from unit.report.synthetic_run import ProcessWriter, process

from otel_rl.report.core.collected import Collected
from otel_rl.report.subjects import load, overview
from otel_rl.store.reader import Reader, find_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Name of a span, seconds, attributes.
Part = tuple[str, float, dict[str, Any]]
STARTED = 1_800_000_000_000_000_000


def context(*key: object) -> SpanContext:
    """Ids that follow from ``key``."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return SpanContext(
        int.from_bytes(digest[:16], "big"),
        int.from_bytes(digest[16:24], "big"),
        is_remote=False,
        trace_flags=TraceFlags(1),
    )


@dataclass
class Job:
    """Steps of ranks that meet at the end of each: a rank that is early waits in its phase ``train``.

    ``phases`` and ``functions`` give the seconds of a step of a rank by name; both vary by ``noise``. ``fetching``
    gives the seconds before a step of a rank, which are a phase of their own where ``marks`` is set.
    """

    folder: Path
    phases: Callable[[int, int], dict[str, float]]
    functions: Callable[[int, int], dict[str, float]] = lambda _step, _rank: {}
    logged: Callable[[int], dict[str, float]] = lambda _step: {}
    fetching: Callable[[int, int], float] = lambda _step, _rank: 0.0
    #: More attributes of the step of a rank.
    step_values: Callable[[int, int], dict[str, float]] = lambda _step, _rank: {}
    marks: bool = False
    ranks: int = 2
    steps: int = 40
    noise: float = 0.03
    #: Number of the first step, seconds until it, the attempt, and the name of the loop.
    first: int = 1
    begins: float = 0.0
    attempt: str = "0.0.0"
    loop: str = ""
    #: Who says where its steps begin and end.
    source: str = "given"
    writers: list[ProcessWriter] = field(default_factory=list)

    def write(self) -> Path:
        """Write it; its folder."""
        chance = random.Random(0)  # noqa: S311 - no secret
        self.writers = [
            process(
                self.folder,
                rank,
                world_size=self.ranks,
                started=STARTED + int(self.begins * 1e9),
                rl__run__attempt=self.attempt,
            )
            for rank in range(self.ranks)
        ]
        at = 1.0
        for step in range(self.first, self.first + self.steps):
            work = [self._work(step, rank, chance) for rank in range(self.ranks)]
            before = [self.fetching(step, rank) for rank in range(self.ranks)]
            length = max(
                sum(phases.values()) + sum(functions.values()) + more
                for (phases, functions), more in zip(work, before, strict=True)
            )
            for rank, (phases, functions) in enumerate(work):
                if self.marks:
                    self._wait(step, rank, at, before[rank])
                self._step(step, rank, at + before[rank], length - before[rank], phases, functions)
            body = self.logged(step)
            if body:
                values = {"rl.loop.iteration": step, "rl.step.first": step, "rl.step.last": step}
                self.writers[0].event("rl.step", at + length, body=body, attributes=values)
            at += length
        for writer in self.writers:
            writer.ended = writer.at(at)
            writer.write()
        return self.folder

    def _wait(self, step: int, rank: int, at: float, seconds: float) -> None:
        writer, own = self.writers[rank], context("wait", step, rank)
        writer.ids.trace, writer.ids.span = own.trace_id, own.span_id
        writer.span("rl.data_wait", at, at + seconds, {"rl.phase": "data_wait"})

    def _work(self, step: int, rank: int, chance: random.Random) -> tuple[dict[str, float], dict[str, float]]:
        def varied(seconds: dict[str, float]) -> dict[str, float]:
            return {name: value * chance.uniform(1 - self.noise, 1 + self.noise) for name, value in seconds.items()}

        return varied(self.phases(step, rank)), varied(self.functions(step, rank))

    def _step(
        self, step: int, rank: int, at: float, length: float, phases: dict[str, float], functions: dict[str, float]
    ) -> None:
        writer, values = self.writers[rank], {"rl.loop.iteration": step}
        root, own = context("step", step), context("rank", step, rank)
        own = SpanContext(root.trace_id, own.span_id, is_remote=False, trace_flags=TraceFlags(1))
        waited = length - sum(phases.values()) - sum(functions.values())
        now = at
        for name, seconds in phases.items():
            inner = sum(functions.values()) if name == "reward" else waited if name == "train" else 0.0
            phase = SpanContext(
                root.trace_id, context(name, step, rank).span_id, is_remote=False, trace_flags=TraceFlags(1)
            )
            begin = now
            for function, spent in functions.items() if name == "reward" else ():
                writer.span(
                    "rl.reward", now, now + spent, {**values, "rl.phase": "reward", "rl.reward.name": function}, phase
                )
                now += spent
            writer.ids.span = phase.span_id
            writer.span(f"rl.{name}", begin, begin + seconds + inner, {**values, "rl.phase": name}, own)
            now = begin + seconds + inner
        writer.ids.span = own.span_id
        waits = {"torch.distributed.calls": 1, "torch.distributed.wait_time": waited}
        named = {"rl.loop.source": self.source} | ({"rl.loop.name": self.loop} if self.loop else {})
        writer.span(
            "rl.rank.step",
            at,
            at + length,
            {**values, **named, "rl.rank": rank, **waits, **self.step_values(step, rank)},
            root,
        )


def examined(folder: Path) -> overview.Overview:
    """What the report finds in a run."""
    return overview.examine(Collected(Reader(find_run(folder)), load()).read(lambda _: None))


def rollout(writer: ProcessWriter, step: int, number: int, at: float, parts: list[Part]) -> float:
    """One trajectory with calls one after the other: span name, seconds, attributes; when it ended."""
    root = context("rollout", step, number)
    identity = {"rl.rollout.id": f"{step}-{number}", "rl.loop.iteration": step}
    now = at
    for name, seconds, values in parts:
        error = values.pop("error", None)
        writer.span(name, now, now + seconds, {**identity, **values}, root, error=error)
        now += seconds
    writer.ids.trace, writer.ids.span = root.trace_id, root.span_id
    writer.span("rl.rollout", at, now, identity)
    return now
