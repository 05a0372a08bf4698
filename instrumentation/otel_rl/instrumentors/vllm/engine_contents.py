"""The weights of an engine from outside: log-probabilities of a fixed prompt, and sums over its parameters.

The prompt is a request past ``LLM``, so that the program's requests keep their numbers. It samples one token greedily,
which draws no random number, reads nothing from the prefix cache and is too short to leave anything there. It counts as
one request more in vLLM's own statistics.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from otel_rl.weight_sync.tensor_sums import sums_of_model
from otel_rl.weight_sync.verdicts import EngineWeights

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Plain words: the tokens of a text stand for nothing but text.
_PROMPT, _MOST_TOKENS = "The quick brown fox jumps over the lazy dog.", 12
_WITHOUT_TOKENIZER = tuple(range(5, 5 + _MOST_TOKENS))
_numbers = count(1)


def unsuitable(engine: Any) -> str | None:
    """Why an ``LLMEngine`` must not be asked for anything on its own; None where it may be.

    Ranks that drive an engine together all have to ask it for the same. Whether parameters have moved, each would
    decide on its own.
    """
    parallel = engine.vllm_config.parallel_config
    if parallel.distributed_executor_backend == "external_launcher" and parallel.world_size > 1:
        return "several ranks drive the engine together"
    if parallel.data_parallel_size > 1:
        return "the engine is one of several that compute in step"
    return None


def is_idle(engine: Any) -> bool:
    """Return whether nothing of the program is in the engine, and it is awake."""
    return not engine.has_unfinished_requests() and not engine.is_sleeping()


def prompt_of(engine: Any) -> tuple[int, ...] | None:
    """Return the tokens of the fixed prompt, fewer than a block of the cache has; None where not even two are."""
    longest = min(_MOST_TOKENS, engine.model_config.max_model_len - 1, _block_size(engine) - 1)
    tokens: Sequence[int] = _WITHOUT_TOKENIZER
    if not engine.model_config.skip_tokenizer_init:
        tokens = engine.get_tokenizer().encode(_PROMPT)
    prompt = tuple(tokens)[: max(longest, 0)]
    # The first token has no log-probability.
    return prompt if len(prompt) > 1 else None


def _block_size(engine: Any) -> int:
    """Tokens of the smallest block that the prefix cache keeps; names of ``CacheConfig`` of vLLM 0.32."""
    cache = engine.vllm_config.cache_config
    sizes = (getattr(cache, name, None) for name in ("block_size", "prefix_match_unit", "hash_block_size"))
    return min((size for size in sizes if size), default=1)


def logprobs_of(engine: Any, prompt: Sequence[int]) -> tuple[float, ...]:
    """Return the log-probabilities of the tokens of ``prompt`` but the first, in an idle engine."""
    sampling = sys.modules["vllm"].SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False)
    # Rendered, as ``LLM`` does it: the engine warns of prompts that are not.
    (rendered,) = engine.renderer.render_cmpl([{"prompt_token_ids": list(prompt)}])
    request = engine.add_request(f"otel-rl-sync-check-{next(_numbers)}", rendered, sampling)
    answers: list[Any] = []
    try:
        while engine.has_unfinished_requests():
            answers += engine.step()
    finally:
        # Interrupted: the program must not get an answer to what it has not asked.
        if not any(answer.finished for answer in answers):
            with suppress(Exception):
                engine.abort_request([request], internal=True)
    logprobs = answers[-1].prompt_logprobs
    return tuple(known[token].logprob for token, known in zip(prompt, logprobs, strict=True) if known is not None)


def sums_of(engine: Any) -> dict[str, tuple[int | None, ...]]:
    """Return the sums over the parameters of ``engine`` by name, of each worker; None for one that holds no data.

    vLLM's CPU build packs the weights of linear layers and leaves empty parameters: ``dispatch_cpu_unquantized_gemm``.

    Raises:
        TypeError: the engine runs in a process of its own, and vLLM sends no functions there.
    """
    sums: dict[str, tuple[int | None, ...]] = {}
    for worker in engine.collective_rpc("apply_model", args=(sums_of_model,)):
        for name, value in worker:
            sums[name] = (*sums.get(name, ()), value)
    return sums


def ask(engine: Any, prompt: Sequence[int] | None, *, sums: bool) -> EngineWeights:
    """Read the contents of an idle ``engine``; without a ``prompt`` no log-probabilities."""
    logprobs = logprobs_of(engine, prompt) if prompt else None
    return EngineWeights(logprobs, _readable(sums_of(engine)) if sums else None)


def _readable(sums: dict[str, tuple[int | None, ...]]) -> dict[str, tuple[int, ...]]:
    known = {name: tuple(value for value in values if value is not None) for name, values in sums.items()}
    return {name: values for name, values in known.items() if len(values) == len(sums[name])}
