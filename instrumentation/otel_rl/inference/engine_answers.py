"""What an engine behind a server did for one call, as its answer says it: it counts in the summary of the step.

A call counts where the answer shows an engine, or where the server is on a private host: a program trains with engines
of its own, and asks judges elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.inference.engine_requests import ABORT, EngineRequests
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import RlInferenceStreamEndedValues as Ended
from otel_rl.training import engine_summary, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.inference.answers import Answer

#: An engine aborts what nobody waits for any more.
_LEFT = frozenset({Ended.CLOSED, Ended.ABANDONED, Ended.CANCELLED})
#: Of a candidate of which the answer does not say why it ended.
_UNKNOWN = "unknown"


def add(answer: Answer, error: BaseException | None, ended: str | None, *, is_private: bool) -> None:
    """Add a call that has ended, with ``error`` or as the stream says; one that the server refused is not counted.

    What an answer does not say is no zero: the sum of a step is that of the calls that say it.
    """
    if (answer.engine is None and not is_private) or steps.where().step is None:
        return
    has_left = _has_left(answer, error, ended)
    if not has_left and (error is not None or answer.failure is not None):
        return
    reasons = answer.finish_reasons or (ABORT if has_left else _UNKNOWN,) * answer.samples
    requests = requests_of(answer, reasons)
    counts = requests.step_counts()
    said = {
        attributes.RL_ENGINE_INPUT_TOKENS: answer.input_tokens,
        attributes.RL_ENGINE_OUTPUT_TOKENS: answer.exact_output_tokens(),
        # vLLM says it with --enable-prompt-tokens-details.
        attributes.RL_ENGINE_CACHED_TOKENS: answer.cached_tokens,
    }
    for name, tokens in said.items():
        if tokens is None:
            del counts[name]
    engine_summary.add(counts, requests.times)


def requests_of(answer: Answer, reasons: Sequence[str]) -> EngineRequests:
    """Return an answer as requests of an engine; ``reasons`` has why each of its candidates ended."""
    times = answer.times
    requests = EngineRequests()
    requests.add(
        answer.input_tokens or 0,
        answer.exact_output_tokens() or 0,
        reasons,
        times[0] if times else None,
        answer.cached_tokens or 0,
        answer.preemptions,
    )
    for number in range(1, answer.requests):
        requests.add(0, 0, (), times[number] if number < len(times) else None)
    return requests


def _has_left(answer: Answer, error: BaseException | None, ended: str | None) -> bool:
    """Return whether the program left before the answer was complete."""
    if error is not None:
        name = type(error).__name__
        return name == "CancelledError" or name.endswith(("ReadTimeout", "TimeoutError"))
    return ended in _LEFT and answer.finish_reasons is None
