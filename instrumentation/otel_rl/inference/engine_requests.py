"""What the requests of one call of an engine took: tokens, candidates, and times as the engine reports them.

See :mod:`otel_rl.inference.engine_times` for the times of a request; a call and a step have their means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference import engine_times
from otel_rl.semconv import attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Reasons of the engines for the end of a candidate.
LENGTH, ABORT = "length", "abort"
#: Most candidates of a call whose reasons are listed one by one.
MOST_REASONS = 64


def was_aborted(reasons: Sequence[str] | None) -> bool:
    """Return whether the engine gave the request up, after a timeout or restart: its output is not the policy's."""
    return reasons is not None and ABORT in reasons


class EngineRequests:
    """The requests of one call."""

    def __init__(self) -> None:
        self.requests = self.profiled = self.preemptions = 0
        self.input_tokens = self.output_tokens = self.cached_tokens = 0
        #: Log-probabilities of output tokens.
        self.logprobs = 0
        #: Of each candidate, in order.
        self.reasons: list[str] = []
        #: Attribute -> its value of each request that has it.
        self.times: dict[str, list[float]] = {}

    def add(
        self,
        input_tokens: int,
        output_tokens: int,
        reasons: Iterable[str],
        times: Mapping[str, float] | None = None,
        cached_tokens: int = 0,
        preemptions: int = 0,
    ) -> None:
        """One request has finished; ``reasons`` has the reason for the end of each of its candidates."""
        self.requests += 1
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cached_tokens += cached_tokens
        self.preemptions += preemptions
        self.reasons.extend(reasons)
        if times:
            self.profiled += 1
            for name, value in times.items():
                self.times.setdefault(name, []).append(value)

    def counts(self) -> dict[str, int]:
        """Attributes that are sums; a call and a step have the same."""
        values = {
            attributes.RL_ENGINE_REQUESTS: self.requests,
            attributes.RL_ENGINE_PROFILED_REQUESTS: self.profiled,
            attributes.RL_ENGINE_SAMPLES: len(self.reasons),
            attributes.RL_ENGINE_TRUNCATED_SAMPLES: self.reasons.count(LENGTH),
            attributes.RL_ENGINE_ABORTED_SAMPLES: self.reasons.count(ABORT),
        }
        if self.preemptions:
            values[attributes.RL_ENGINE_PREEMPTIONS] = self.preemptions
        return values

    def step_counts(self) -> dict[str, int]:
        """Attributes of a step that are sums."""
        return {
            **self.counts(),
            attributes.RL_ENGINE_INPUT_TOKENS: self.input_tokens,
            attributes.RL_ENGINE_OUTPUT_TOKENS: self.output_tokens,
            attributes.RL_ENGINE_CACHED_TOKENS: self.cached_tokens,
        }

    def attributes(self) -> dict[str, Any]:
        """Attributes of the span of the call."""
        values: dict[str, Any] = {
            **self.counts(),
            attributes.GEN_AI_USAGE_INPUT_TOKENS: self.input_tokens,
            attributes.GEN_AI_USAGE_OUTPUT_TOKENS: self.output_tokens,
        }
        if self.logprobs:
            values[attributes.RL_INFERENCE_LOGPROBS_COUNT] = self.logprobs
        if self.cached_tokens:
            values[attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS] = self.cached_tokens
        values.update(engine_times.means(self.times))
        if 0 < len(self.reasons) <= MOST_REASONS:
            values[attributes.GEN_AI_RESPONSE_FINISH_REASONS] = tuple(self.reasons)
        return values
