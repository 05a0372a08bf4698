"""What inference engines did in the steps, from what the span of each step says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.store.tables.engine_stages import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.store.tables import RunTables

#: Attribute of a step that is a sum -> field of :class:`EngineWork`.
_COUNTS = {
    names.RL_ENGINE_REQUESTS: "requests",
    names.RL_ENGINE_PROFILED_REQUESTS: "profiled_requests",
    names.RL_ENGINE_SAMPLES: "samples",
    names.RL_ENGINE_TRUNCATED_SAMPLES: "truncated_samples",
    names.RL_ENGINE_ABORTED_SAMPLES: "aborted_samples",
    names.RL_ENGINE_PREEMPTIONS: "preemptions",
    names.RL_ENGINE_INPUT_TOKENS: "input_tokens",
    names.RL_ENGINE_OUTPUT_TOKENS: "output_tokens",
    names.RL_ENGINE_CACHED_TOKENS: "cached_tokens",
}
#: Times of a request, each an attribute with their mean, in the order in which they are shown.
TIMES = (
    names.RL_ENGINE_QUEUE_TIME,
    names.RL_ENGINE_TIME_TO_FIRST_TOKEN,
    names.RL_ENGINE_PREFILL_TIME,
    names.RL_ENGINE_PREFILL_BOOTSTRAP_QUEUE_TIME,
    names.RL_ENGINE_PREFILL_BOOTSTRAP_TIME,
    names.RL_ENGINE_PREFILL_ALLOC_WAIT_TIME,
    names.RL_ENGINE_PREFILL_TRANSFER_QUEUE_TIME,
    names.RL_ENGINE_PREFILL_RETRIES,
    names.RL_ENGINE_DECODE_PREALLOC_TIME,
    names.RL_ENGINE_DECODE_BOOTSTRAP_TIME,
    names.RL_ENGINE_DECODE_ALLOC_WAIT_TIME,
    names.RL_ENGINE_TRANSFER_TIME,
    names.RL_ENGINE_TRANSFER_SPEED,
    names.RL_ENGINE_TRANSFER_SIZE,
    names.RL_ENGINE_DECODE_TIME,
    names.RL_ENGINE_DECODE_THROUGHPUT,
    names.RL_ENGINE_REQUEST_TIME,
)
_KEYS = {name: name.removeprefix(NAMESPACE) for name in TIMES}
#: Attribute that a key follows -> how the values of the requests are spread.
_SPREADS = {names.RL_ENGINE_MEDIAN: "median", names.RL_ENGINE_P95: "p95", names.RL_ENGINE_MAX: "max"}


@dataclass(slots=True)
class EngineWork:
    """What engines did in some steps: sums over the ranks, and times of the requests that have them.

    ``times`` has for each time (``queue_time``) its ``mean``, and the largest ``median``, ``p95`` and ``max`` of any
    rank and step.
    """

    #: None for all steps.
    step: int | None = None
    requests: int = 0
    profiled_requests: int = 0
    samples: int = 0
    truncated_samples: int = 0
    aborted_samples: int = 0
    preemptions: int = 0
    #: None where no answer said it.
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    times: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def cached_share(self) -> float | None:
        """Share of the tokens of the prompts that came from a cache."""
        return self.cached_tokens / self.input_tokens if self.input_tokens and self.cached_tokens is not None else None

    def share(self, samples: int) -> float | None:
        """Return ``samples`` as a share of all."""
        return samples / self.samples if self.samples else None


_SUMS = """
SELECT step, v.name, sum(v.value) AS total {steps} GROUP BY 1, 2"""
#: Means of the requests with times, by these.
_MEANS = """
SELECT step, v.name, sum(v.value * w.value) AS total, sum(w.value) AS requests
{steps} AND w.value > 0 GROUP BY 1, 2"""
_LARGEST = """
SELECT step, v.name, max(v.value) AS largest {steps} GROUP BY 1, 2"""
_STEPS = """
FROM step_value v JOIN step s USING (id) JOIN process p USING (process) {with_requests}
WHERE p.attempt = ?1 AND loop = ?2 AND restarts = ?3 AND step IS NOT NULL AND v.name IN ({names})
  AND EXISTS (SELECT 1 FROM step_value r WHERE r.id = v.id AND r.name = '{requests}' AND r.value > 0)"""


class Engines:
    """The work of engines in the steps of a stretch: attempt, loop and restarts."""

    def __init__(self, tables: RunTables, stretch: tuple[str, str, int]) -> None:
        self._tables, self._stretch = tables, stretch

    @cached_property
    def _by_step(self) -> dict[int, dict[Any, float]]:
        """By attribute; of a mean its sum over the requests, and under (attribute,) these."""
        by_step: dict[int, dict[Any, float]] = {}
        for row in self._tables.stream(_SUMS.format(steps=_of(_COUNTS)), *self._stretch):
            by_step.setdefault(row["step"], {})[row["name"]] = row["total"]
        profiled = f"JOIN step_value w ON w.id = v.id AND w.name = '{names.RL_ENGINE_PROFILED_REQUESTS}'"
        for row in self._tables.stream(_MEANS.format(steps=_of(TIMES, profiled)), *self._stretch):
            sums = by_step.setdefault(row["step"], {})
            sums[row["name"]], sums[row["name"],] = row["total"], row["requests"]
        return by_step

    @cached_property
    def _spreads(self) -> dict[int, dict[str, float]]:
        """Return the largest value over the ranks by attribute, for each step."""
        by_step: dict[int, dict[str, float]] = {}
        wanted = [f"{spread}.{key}" for spread in _SPREADS for key in _KEYS.values()]
        for row in self._tables.stream(_LARGEST.format(steps=_of(wanted)), *self._stretch):
            by_step.setdefault(row["step"], {})[row["name"]] = row["largest"]
        return by_step

    def steps(self) -> list[EngineWork]:
        """Return the work by step."""
        return [_work(step, sums, self._spreads.get(step, {})) for step, sums in sorted(self._by_step.items())]

    def whole(self) -> EngineWork:
        """Return the work of all steps."""
        totals: dict[Any, float] = {}
        for sums in self._by_step.values():
            for key, value in sums.items():
                totals[key] = totals.get(key, 0.0) + value
        spread: dict[str, float] = {}
        for values in self._spreads.values():
            for name, value in values.items():
                spread[name] = max(value, spread.get(name, value))
        return _work(None, totals, spread)


def _of(wanted: Iterable[str], with_requests: str = "") -> str:
    listed = ", ".join(f"'{name}'" for name in wanted)
    return _STEPS.format(names=listed, with_requests=with_requests, requests=names.RL_ENGINE_REQUESTS)


def work_as_json(work: EngineWork) -> dict[str, Any]:
    """Return what engines did in some steps, for programs."""
    keys: dict[str, Any] = {} if work.step is None else {"step": work.step}
    keys.update({name: getattr(work, name) for name in _COUNTS.values()})
    return {**keys, "cached_share": work.cached_share, "times": work.times}


def _work(step: int | None, totals: dict[Any, float], spread: dict[str, float]) -> EngineWork:
    work = EngineWork(step)
    for attribute, name in _COUNTS.items():
        if attribute in totals:
            setattr(work, name, int(totals[attribute]))
    for attribute, key in _KEYS.items():
        if requests := totals.get((attribute,)):
            known = {name: spread[f"{of}.{key}"] for of, name in _SPREADS.items() if f"{of}.{key}" in spread}
            work.times[key] = {"mean": totals[attribute] / requests, **known}
    return work
