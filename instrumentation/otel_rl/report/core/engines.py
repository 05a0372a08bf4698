"""What inference engines did in the steps, from what the span of each step says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.statistics import BinnedSeries
from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from otel_rl.store.reader import Span

_CELLS = 20_000
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
#: Attribute that is a mean of the requests with times -> name of that time.
SECONDS = {
    names.RL_ENGINE_QUEUE_TIME: "queue",
    names.RL_ENGINE_TIME_TO_FIRST_TOKEN: "first_token",
    names.RL_ENGINE_PREFILL_TIME: "prefill",
    names.RL_ENGINE_DECODE_TIME: "decode",
    names.RL_ENGINE_TRANSFER_TIME: "transfer",
}


@dataclass(slots=True)
class EngineWork:
    """What engines did in some steps: sums over the ranks, and mean seconds of the requests whose times are known."""

    #: The first of the steps; None for all of them.
    first: int | None = None
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
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def cached_share(self) -> float | None:
        """Share of the tokens of the prompts that came from a cache."""
        return self.cached_tokens / self.input_tokens if self.input_tokens and self.cached_tokens is not None else None

    def share(self, samples: int) -> float | None:
        """Return ``samples`` as a share of all."""
        return samples / self.samples if self.samples else None


class Engines:
    """Adds up the work of engines by step."""

    def __init__(self) -> None:
        #: By attribute; of a mean its sum over the requests, and under (attribute,) these.
        self._series = BinnedSeries(_CELLS)

    @property
    def width(self) -> int:
        """Steps that share a row."""
        return self._series.width

    def add(self, span: Span, iteration: int) -> None:
        """Take in the span of a step on a rank; one without calls of engines is ignored."""
        counts = {attribute: _value_of(span, attribute) for attribute in _COUNTS}
        if not counts[names.RL_ENGINE_REQUESTS]:
            return
        for attribute, number in counts.items():
            if number is not None:
                self._series.add(iteration, attribute, number)
        profiled = counts[names.RL_ENGINE_PROFILED_REQUESTS] or 0.0
        for attribute in SECONDS:
            mean = _value_of(span, attribute)
            if mean is not None and profiled > 0:
                self._series.add(iteration, attribute, mean * profiled)
                self._series.add(iteration, (attribute,), profiled)

    def steps(self) -> list[EngineWork]:
        """Return the work by step, or by as many steps as share a row."""
        totals: dict[int, dict[Any, float]] = {}
        for key, line in self._series.lines().items():
            for first, cell in line:
                totals.setdefault(first, {})[key] = cell.total
        return [_work(first, sums) for first, sums in sorted(totals.items())]

    def whole(self) -> EngineWork:
        """Return the work of all steps."""
        lines = self._series.lines().items()
        return _work(None, {key: sum(cell.total for _, cell in line) for key, line in lines})


def as_json(engines: Engines) -> dict[str, Any] | None:
    """Return all steps together and each row, for programs; None where no engine was asked."""
    steps = engines.steps()
    if not steps:
        return None
    whole = _as_json(engines.whole())
    return {"whole": whole, "steps_of_a_row": engines.width, "steps": [_as_json(work) for work in steps]}


def _as_json(work: EngineWork) -> dict[str, Any]:
    keys: dict[str, Any] = {} if work.first is None else {"step": work.first}
    keys.update({name: getattr(work, name) for name in _COUNTS.values()})
    return {**keys, "cached_share": work.cached_share, "mean_seconds": work.seconds}


def _work(first: int | None, totals: dict[Any, float]) -> EngineWork:
    work = EngineWork(first)
    for attribute, name in _COUNTS.items():
        if attribute in totals:
            setattr(work, name, int(totals[attribute]))
    for attribute, name in SECONDS.items():
        if requests := totals.get((attribute,)):
            work.seconds[name] = totals[attribute] / requests
    return work


def _value_of(span: Span, attribute: str) -> float | None:
    value = span.attributes.get(attribute)
    return float(value) if isinstance(value, (int, float)) else None
