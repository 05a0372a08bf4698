"""Requests and answers of the engines' own endpoints in the form of OpenAI's completions, which all else reads.

Sources: SGLang 0.5.23 (``GenerateReqInput`` and ``meta_info``), vLLM 0.32 (``/inference/v1/generate``), TRL's server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.inference import engine_times
from otel_rl.inference.answers import Answer
from otel_rl.inference.fields import count_of, fields_of, items_of, text_of
from otel_rl.semconv.attributes import RlInferenceEngineValues

if TYPE_CHECKING:
    from collections.abc import Mapping

#: SGLang's name of a parameter -> that of the protocol.
_SGLANG_PARAMETERS = {"max_new_tokens": "max_tokens"}
#: One for each token of a sample, in ``meta_info``.
LOGPROBS = "output_token_logprobs"
#: Versions of the weights by range of output tokens, in ``meta_info``.
VERSIONS = "weight_versions"
#: Most items of an answer that are looked at; a batch may have thousands.
_MOST_ITEMS = 16384


def as_completion_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request for tokens: the parameters of ``sampling_params`` beside model and prompt."""
    sampling = body.get("sampling_params")
    if isinstance(sampling, list) and sampling:
        sampling = sampling[0]
    parameters = {_SGLANG_PARAMETERS.get(key, key): value for key, value in fields_of(sampling).items()}
    for key in ("model", "stream", "messages", "n", "max_tokens", "temperature", "top_p", "top_k"):
        if key in body:
            parameters[key] = body[key]
    prompt = body.get("text", body.get("prompt"))
    if isinstance(prompt, str):
        parameters["prompt"] = prompt
    return parameters


class EngineAnswer(Answer):
    """Facts of an answer in any of the forms."""

    def __init__(self, samples: int, captures: bool = False) -> None:
        super().__init__(captures)
        #: Samples of a prompt: SGLang counts the tokens of a prompt with each of them.
        self._samples = samples

    def observe(self, answer: Any) -> None:
        """Take the facts of a complete answer; a list has one item for each sample."""
        items = items_of(answer) or (answer,)
        if fields_of(fields_of(items[0]).get("meta_info")):
            super().observe(self._of_sglang(items))
            self.engine = RlInferenceEngineValues.SGLANG
            return
        fields = fields_of(answer)
        if "completion_ids" in fields:
            prompts, completions = items_of(fields.get("prompt_ids")), items_of(fields["completion_ids"])
            self.requests, self.samples = len(prompts) or 1, len(completions)
            self.token_ids = sum(map(length_of, completions[:_MOST_ITEMS]))
            self.logprobs = sum(map(length_of, items_of(fields.get("logprobs"))[:_MOST_ITEMS]))
            self.count(sum(map(length_of, prompts)), sum(map(length_of, completions)))
            self.engine = RlInferenceEngineValues.VLLM
            return
        if "request_id" in fields and "id" not in fields:
            self.engine = RlInferenceEngineValues.VLLM
            answer = {**fields, "id": fields["request_id"]}
        super().observe(answer)

    def _of_sglang(self, items: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
        facts = [fields_of(fields_of(item).get("meta_info")) for item in items[:_MOST_ITEMS]]
        self.token_ids = sum(length_of(fields_of(item).get("output_ids")) for item in items[:_MOST_ITEMS])
        self.logprobs = sum(length_of(each.get(LOGPROBS)) for each in facts)
        # A stream that was left early has fewer.
        samples = min(self._samples, len(facts))
        self.requests, self.samples = -(-len(facts) // samples), len(facts)
        self.preemptions = _sum(facts, "num_retractions") or 0
        # Each sample is a request to the scheduler; the others of a prompt wait with the first.
        self.times = [times for each in facts[::samples] if (times := engine_times.of_sglang(each))]
        inputs, cached = _sum(facts, "prompt_tokens", samples), _sum(facts, "cached_tokens", samples)
        self.count(inputs, _sum(facts, "completion_tokens"), cached, None, _sum(facts, "reasoning_tokens"))
        return {
            "id": text_of(facts[0].get("id")),
            "choices": [
                {"text": fields_of(item).get("text"), "finish_reason": _reason(each.get("finish_reason"))}
                for item, each in zip(items, facts, strict=False)
            ],
            "metadata": {
                "weight_version": facts[0].get("weight_version"),
                VERSIONS: [part for each in facts for part in items_of(each.get(VERSIONS))],
            },
        }


class Length(int):
    """Stands for a list that was measured and is not kept. A number of a server does not count as one."""


def length_of(source: Any) -> int:
    """Return the length of a list, or the length that stands for it; 0 for anything else that a server sends."""
    return source if isinstance(source, Length) else len(items_of(source))


def _sum(facts: list[dict[str, Any]], name: str, samples: int = 1) -> int | None:
    """Sum over the items that say it, None where none does; ``samples`` items count the same tokens each."""
    known = [count for each in facts if (count := count_of(each.get(name))) is not None]
    return count_of(sum(known) // samples) if known else None


def _reason(given: Any) -> str | None:
    """SGLang's reason is an object, of which the type is the protocol's reason; None while a stream goes on."""
    return text_of(given) or text_of(fields_of(given).get("type"))
