"""Requests to inference engines, told from all other traffic by method, host and path.

Sources: vLLM 0.32 (``vllm/entrypoints``), SGLang 0.5.23 (``sglang/srt/entrypoints/http_server.py``), the server of TRL
(``trl/scripts/vllm_serve.py``). Paths that other services may have too count on private hosts only, and on those of
``OTEL_RL_PROPAGATE_TO``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from otel_rl.inference.requests import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, Endpoint
from otel_rl.semconv.attributes import GenAiOperationNameValues

#: SGLang's own, and that of TRL's server.
GENERATE = Endpoint("/generate", GenAiOperationNameValues.TEXT_COMPLETION)
#: vLLM's, from tokens to tokens.
GENERATE_TOKENS = Endpoint("/inference/v1/generate", GenAiOperationNameValues.TEXT_COMPLETION)
TRL_CHAT = Endpoint("/chat", GenAiOperationNameValues.CHAT)


class Control(NamedTuple):
    """A request that changes an engine instead of asking it.

    Attributes:
        name: of the operation, which is the last part of the path.
        brings: it is a part of bringing weights, and not of managing memory or requests.
    """

    name: str
    brings: bool


#: Ends of paths of the protocol of OpenAI, which any host may serve, below any path of its own.
_ANYWHERE = (
    ("/chat/completions", CHAT),
    ("/v1/completions", COMPLETIONS),
    ("/v1/responses", RESPONSES),
    ("/v1/embeddings", EMBEDDINGS),
    (GENERATE_TOKENS.path, GENERATE_TOKENS),
)
#: Whole paths, on private hosts.
_GENERATING = {endpoint.path: endpoint for endpoint in (GENERATE, TRL_CHAT)}
_BRING_WEIGHTS = (
    "init_weight_transfer_engine",
    "start_weight_update",
    "update_weights",
    "finish_weight_update",
    "update_weight_version",
    "init_weights_update_group",
    "destroy_weights_update_group",
    "update_weights_from_disk",
    "update_weights_from_distributed",
    "update_weights_from_ipc",
    "update_weights_from_tensor",
    "init_communicator",
    "close_communicator",
    "update_named_param",
    "batch_update_named_params",
    "load_lora_adapter",
    "unload_lora_adapter",
)
_MANAGE = (
    "sleep",
    "wake_up",
    "pause",
    "resume",
    "pause_generation",
    "continue_generation",
    "reset_prefix_cache",
    "flush_cache",
    "release_memory_occupation",
    "resume_memory_occupation",
    "abort_request",
    "abort_requests",
)
_CONTROL = {f"/{name}": Control(name, brings=True) for name in _BRING_WEIGHTS} | {
    f"/{name}": Control(name, brings=False) for name in _MANAGE
}
#: SGLang takes these with GET, too.
_GET = frozenset({"/flush_cache"})


class Target(NamedTuple):
    """What the path of a request stands for.

    Attributes:
        what: an endpoint that is asked for tokens, or an operation.
        anywhere: on any host; else on private ones only.
    """

    what: Endpoint | Control
    anywhere: bool


@lru_cache(maxsize=1024)
def target_of(method: str, path: str) -> Target | None:
    """What a request asks of an engine, if its host is one; None for any other request.

    Args:
        method: in any case.
        path: of the URL, without its query.
    """
    path = path.rstrip("/")
    if method.upper() == "POST":
        for end, endpoint in _ANYWHERE:
            if path.endswith(end):
                return Target(endpoint, anywhere=True)
    elif path not in _GET:
        return None
    # `/v1/load_lora_adapter` of vLLM is the one that has a prefix.
    found = _GENERATING.get(path) or _CONTROL.get(path.removeprefix("/v1"))
    return None if found is None else Target(found, anywhere=False)
