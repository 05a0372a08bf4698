"""What a call of an engine is described with: its model, and the parameters of sampling."""

from __future__ import annotations

from typing import Any

from otel_rl.inference.requests import add_generation_parameters
from otel_rl.telemetry import Scope

scope = Scope("vllm")
PROVIDER = "vllm"
#: Field of ``SamplingParams`` -> value that stands for "not used".
_PARAMETERS: dict[str, Any] = {
    "max_tokens": None,
    "temperature": None,
    "top_p": None,
    "seed": None,
    "n": None,
    "stop": None,
    "frequency_penalty": 0,
    "presence_penalty": 0,
}
_NUMBERS = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty"})


def model_of(engine: Any) -> str:
    """Name of the model of an ``LLM``, ``LLMEngine`` or ``AsyncLLM``, as the engine serves it."""
    config = getattr(getattr(engine, "llm_engine", engine), "model_config", None)
    name = getattr(config, "served_model_name", None) or getattr(config, "model", None) or ""
    if isinstance(name, list | tuple):
        name = name[0] if name else ""
    return str(name)


def sampling_values(given: Any) -> dict[str, Any]:
    """Attributes of ``SamplingParams``; of a list of them only where all requests have the same object."""
    if isinstance(given, list | tuple):
        if not given or any(params is not given[0] for params in given):
            return {}
        given = given[0]
    values: dict[str, Any] = {}
    if given is not None:
        body = {name: getattr(given, name, None) for name in _PARAMETERS}
        top_k = getattr(given, "top_k", None)
        # 0 and -1 mean all tokens.
        body["top_k"] = top_k if isinstance(top_k, int) and top_k > 0 else None
        used = {name: value for name, value in body.items() if value is not None and value != _PARAMETERS.get(name)}
        for name in _NUMBERS & used.keys():
            # A program may write 0 for 0.0; its attribute has one type.
            used[name] = float(used[name])
        add_generation_parameters(values, used)
    return values
