"""Memory and CPU time that `otel-rl report` takes for a large run.

    python benchmarks/report_size.py [--output FILE]

The run has two ranks and 105 spans per step: rollouts with model and tool calls, phases, reward functions; one of these
becomes slow on one rank after 70 % of the steps. It is written to a temporary folder (660 MB). The report runs in a
process of its own.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from figures import finish, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS, RANKS, ROLLOUTS, CALLS = 10_000, 2, 5, 4
SLOW_FROM = 0.7
STARTED = 1_700_000_000_000_000_000
MS = 1_000_000

Span = dict[str, Any]


def _attribute(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    return {"key": key, "value": {"doubleValue" if isinstance(value, float) else "stringValue": value}}


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [_attribute(key, value) for key, value in values.items()]


class Rank:
    """Writes the spans of one rank, step after step."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.now = STARTED
        self.dice = random.Random(rank)  # noqa: S311 - repeatable on purpose

    def _id(self, size: int = 8) -> str:
        return self.dice.randbytes(size).hex()

    def _span(self, name: str, ids: tuple[str, str, str], begin: int, values: dict[str, Any]) -> Span:
        trace, span, parent = ids
        return {
            "traceId": trace,
            "spanId": span,
            "parentSpanId": parent,
            "name": name,
            "startTimeUnixNano": str(begin),
            "endTimeUnixNano": str(self.now),
            "attributes": _attributes(values),
            "status": {},
        }

    def _spend(self, milliseconds: float) -> int:
        begin, self.now = self.now, self.now + int(milliseconds * MS * self.dice.uniform(0.9, 1.1))
        return begin

    def step(self, step: int) -> Iterator[Span]:
        """All spans of a step, inner ones first."""
        trace, own, begin = f"{step:032x}", self._id(), self.now
        values = {"rl.loop.iteration": step}
        is_slow = step > SLOW_FROM * STEPS
        for phase in ("sample", "reward", "train", "sync"):
            span, since = self._id(), self.now
            if phase == "sample":
                for _ in range(ROLLOUTS):
                    yield from self._rollout(step)
            elif phase == "reward":
                for name in ("score_a", "score_b"):
                    at = self._spend(200 if is_slow and self.rank == 1 and name == "score_b" else 20)
                    yield self._span(
                        "rl.reward",
                        (trace, self._id(), span),
                        at,
                        {**values, "rl.phase": "reward", "rl.reward.name": name},
                    )
            else:
                self._spend(
                    {"train": 300, "sync": 40}[phase] + (180 if is_slow and self.rank == 0 and phase == "train" else 0)
                )
            yield self._span(f"rl.{phase}", (trace, span, own), since, {**values, "rl.phase": phase})
        waited = 0.18 if is_slow and self.rank == 0 else 0.01
        told = {**values, "rl.rank": self.rank, "torch.distributed.calls": 4, "torch.distributed.wait_time": waited}
        yield self._span("rl.rank.step", (trace, own, f"{step:016x}"), begin, told)
        if self.rank == 0:
            yield self._span("rl.loop", (trace, f"{step:016x}", ""), begin, values)

    def _rollout(self, step: int) -> Iterator[Span]:
        trace, root, begin = self._id(16), self._id(), self.now
        values = {"rl.loop.iteration": step, "rl.rollout.id": trace[:8]}
        model = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "server.address": "10.0.0.1",
            "server.port": 8000,
            "rl.inference.retries": 0,
            "gen_ai.response.time_to_first_chunk": 0.01,
        }
        for number in range(CALLS):
            yield self._span("chat m", (trace, self._id(), root), self._spend(15), {**values, **model})
            tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool{number}"}
            yield self._span("execute_tool", (trace, self._id(), root), self._spend(5), {**values, **tool})
        yield self._span("rl.rollout", (trace, root, ""), begin, {**values, "rl.rollout.reward": 1.0})


def write_run(folder: Path) -> int:
    """Write a run; its number of spans."""
    number = 0
    for rank in range(RANKS):
        writer, place = Rank(rank), folder / f"node-rank{rank}-{rank:08x}"
        place.mkdir(parents=True)
        identity = {"service.name": "large", "service.instance.id": str(rank), "rl.run.id": "run", "rl.rank": rank}
        resource = {"attributes": _attributes({**identity, "rl.world_size": RANKS})}
        with (place / "traces-0001.jsonl").open("w") as stream:
            for step in range(1, STEPS + 1):
                number += _write_line(stream, resource, list(writer.step(step)))
        manifest = {"format": "otel-rl/1", "run_id": "run", "rank": rank, "world_size": RANKS, "clean_exit": True}
        moments = {"started_unix_nano": STARTED, "ended_unix_nano": writer.now}
        (place / "manifest.json").write_text(json.dumps({**manifest, **moments}))
    return number


def _write_line(stream: TextIO, resource: dict[str, Any], spans: list[Span]) -> int:
    scopes = [{"scope": {"name": "otel_rl.trl"}, "spans": spans}]
    stream.write(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}) + "\n")
    return len(spans)


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        spans = write_run(Path(folder) / "run")
        peak, seconds = measure("report", Path(folder) / "run")
    figures = {
        f"{STEPS} steps, {spans} spans: MiB": {"value": round(peak, 1)},
        f"{STEPS} steps, {spans} spans: CPU seconds": {"value": round(seconds, 1)},
    }
    return finish("report_size", figures, [], __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
