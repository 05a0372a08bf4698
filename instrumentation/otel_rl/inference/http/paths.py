"""Requests to inference engines, recognised by method and path; imports little of the pack.

Sources: vLLM 0.32 (``vllm/entrypoints``), SGLang 0.5.23 (``sglang/srt/entrypoints/http_server.py``), the server of TRL
(``trl/scripts/vllm_serve.py``), the servers that AReaL, SkyRL and prime-rl put in front of them. Paths that other
services may have too count on private hosts only, and on those of ``OTEL_RL_PROPAGATE_TO``. The user declares further
ones in ``OTEL_RL_MODEL_PATHS``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from otel_rl.core import settings


class Target(NamedTuple):
    """What the path of a request stands for.

    Attributes:
        path: of the endpoint that is asked for tokens; empty for an operation.
        operation: what is done to the engine, which is the last part of the path; empty for a request for tokens.
        brings_weights: the operation is a part of bringing weights, and not of managing memory or requests.
        anywhere: on any host; else on private ones only.
        is_common: other services have operations of this name: only for a server that has been an engine before.
        needs: fields that the body has, unless the path is that of another service.
        model: if the path names it; then ``is_stream`` if the answer is a stream.
    """

    path: str = ""
    operation: str = ""
    brings_weights: bool = False
    anywhere: bool = False
    is_common: bool = False
    needs: frozenset[str] = frozenset()
    model: str = ""
    is_stream: bool = False


#: SGLang's own, and that of TRL's server.
GENERATE = "/generate"
#: vLLM's, from tokens to tokens.
GENERATE_TOKENS = "/inference/v1/generate"
#: Of TRL's server.
TRL_CHAT = "/chat"
CHAT = "/chat/completions"
#: Anthropic's, which vLLM, SGLang and LiteLLM serve, too.
MESSAGES = "/v1/messages"
OLLAMA_CHAT = "/api/chat"
OLLAMA_GENERATE = "/api/generate"
GEMINI = "generateContent"
#: Bedrock's.
CONVERSE = "converse"
#: Paths with the model in them, their ends, and what the body has.
_WITH_MODEL = (
    (re.compile(r".*/models/(.+):(generateContent|streamGenerateContent)"), GEMINI, frozenset({"contents"})),
    (re.compile(r".*/model/(.+)/(converse|converse-stream)"), CONVERSE, frozenset({"messages"})),
)
_STREAMS = ("streamGenerateContent", "converse-stream")
#: Stands for a path that the user has declared.
DECLARED = "declared"
#: Ends of paths of the protocol of OpenAI, which any host may serve, below any path of its own -> endpoint.
_ANYWHERE = {
    CHAT: CHAT,
    # Of prime-rl: a conversation that goes on from tokens.
    "/chat/completions/tokens": CHAT,
    "/v1/completions": "/completions",
    "/v1/responses": "/responses",
    "/v1/embeddings": "/embeddings",
    GENERATE_TOKENS: GENERATE_TOKENS,
    # Of SkyRL: the same with what it replays of each token.
    "/skyrl/v1/generate": GENERATE_TOKENS,
}
_BRING_WEIGHTS = (
    "init_weight_transfer_engine",
    "shutdown_weight_transfer_engine",
    "start_weight_update",
    "start_draft_weight_update",
    "update_weights",
    "finish_weight_update",
    "update_weight_version",
    "init_weights_update_group",
    "destroy_weights_update_group",
    "begin_weight_update",
    "end_weight_update",
    "update_weights_from_disk",
    "update_weights_from_distributed",
    "update_weights_from_ipc",
    "update_weights_from_tensor",
    "post_process_weights",
    "init_communicator",
    "close_communicator",
    "update_named_param",
    "batch_update_named_params",
    "areal_init_weights_update_group",
    "areal_set_update_weight_meta",
    "areal_set_update_weight_meta_lora",
    "areal_update_weights",
    "areal_update_weights_lora",
    "areal_update_weights_lora_xccl",
    "areal_update_weights_xccl",
    "init_weight_transfer",
    "init_weight_update_communicator",
    "finalize_weight_update",
    "init_broadcaster",
    "reload_weights",
)
_BRING_ADAPTERS = ("load_lora_adapter", "unload_lora_adapter", "load_lora_adapter_from_tensors")
_MANAGE = (
    "wake_up",
    "pause_generation",
    "continue_generation",
    "areal_pause_generation",
    "areal_continue_generation",
    "reset_prefix_cache",
    "reset_mm_cache",
    "reset_encoder_cache",
    "flush_cache",
    "release_kv_cache_memory",
    "release_memory_occupation",
    "resume_memory_occupation",
    "abort_request",
    "abort_requests",
)
_COMMON = ("sleep", "pause", "resume")
_CONVERSATION = frozenset({"model", "messages"})
_PRIVATE = {
    **{path: Target(path) for path in (GENERATE, TRL_CHAT)},
    OLLAMA_CHAT: Target(OLLAMA_CHAT, needs=_CONVERSATION),
    OLLAMA_GENERATE: Target(OLLAMA_GENERATE, needs=frozenset({"model"})),
    **{f"/{name}": Target(operation=name, brings_weights=True) for name in (*_BRING_WEIGHTS, *_BRING_ADAPTERS)},
    # vLLM has two of them below the version of the protocol.
    **{f"/v1/{name}": Target(operation=name, brings_weights=True) for name in _BRING_ADAPTERS[:2]},
    **{f"/{name}": Target(operation=name) for name in _MANAGE},
    **{f"/{name}": Target(operation=name, is_common=True) for name in _COMMON},
}
#: SGLang takes these in other ways than with POST, too.
_OTHER_METHODS = {
    "GET": {"/flush_cache", "/release_memory_occupation", "/resume_memory_occupation"},
    "PUT": {GENERATE},
}


_LAST_PARTS = frozenset(
    path.rpartition("/")[2] for path in (*_ANYWHERE, *_PRIVATE, MESSAGES, GEMINI, CONVERSE, *_STREAMS)
)


@lru_cache(maxsize=1)
def _declared() -> tuple[str, ...]:
    return tuple(address.path for address in settings.current().model_paths or ())


def forget() -> None:
    """Forget what the settings declared: for tests, which change them."""
    _declared.cache_clear()
    target_of.cache_clear()


def may_be_target(url: str) -> bool:
    """Return whether the URL, or an end of one, can be a target, without parsing it."""
    path = url.partition("?")[0].partition("#")[0].rstrip("/")
    return path.rpartition("/")[2].rpartition(":")[2] in _LAST_PARTS or path.endswith(_declared())


@lru_cache(maxsize=1024)
def target_of(method: str, path: str) -> Target | None:
    """Return what a request asks of an engine, if its host is one; None for any other request.

    Args:
        method: in any case.
        path: of the URL, without its query.
    """
    path, method = path.rstrip("/"), method.upper()
    if method != "POST":
        return _PRIVATE[path] if path in _OTHER_METHODS.get(method, ()) else None
    for end, endpoint in _ANYWHERE.items():
        if path.endswith(end):
            return Target(endpoint, anywhere=True)
    if path.endswith(MESSAGES):
        return Target(MESSAGES, anywhere=True, needs=_CONVERSATION)
    for pattern, endpoint, needs in _WITH_MODEL:
        if (found := pattern.fullmatch(path)) is not None:
            model, stream = unquote(found[1]), found[2] in _STREAMS
            return Target(endpoint, anywhere=True, needs=needs, model=model, is_stream=stream)
    if path.endswith(_declared()):
        return Target(DECLARED, anywhere=True)
    return _PRIVATE.get(path)
