"""Which requests are told apart, against a list written from the routes of the servers and not from our table.

Sources of the list: the routers of vLLM 0.32 (``vllm/entrypoints``), SGLang 0.5.23 (``http_server.py``) and TRL's own
server; the clients of AReaL (``vllm_remote.py``), SkyRL (``inference_servers``) and prime-rl (``client.py``).
"""

from __future__ import annotations

import asyncio
import gc
import json

import pytest
from support.engine_server import EngineServer
from unit.inference_http.http_posts import INSTALLED

from otel_rl import step
from otel_rl.inference.http import calls, paths

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
PROMPT = {"model": "tiny", "prompt": "hi"}
RESPONSES = {"model": "tiny", "input": "hi"}
TEXT = {"text": "hi", "sampling_params": {"max_new_tokens": 4}}
IDS = {"model": "tiny", "token_ids": [1, 2], "sampling_params": {"max_tokens": 4}}
DISK = {"model_path": "/ckpt/12", "weight_version": "12"}
TENSORS = {"serialized_named_tensors": ["AAAA"], "load_format": None, "flush_cache": False}
NCCL = {"names": ["w"], "dtypes": ["bfloat16"], "shapes": [[2, 2]], "group_name": "slime-pp_0"}
GROUP = {"master_address": "10.0.0.1", "master_port": 1, "rank_offset": 1, "world_size": 3, "group_name": "g"}
LORA = {"lora_name": "a", "lora_path": "/ckpt/a"}
TAGS = {"tags": ["kv_cache"]}

#: (method, path, body, operation of the span of a model call; the span's model is "tiny" where the body names it).
TOKENS = [
    ("POST", "/v1/chat/completions", CHAT, "chat tiny"),
    ("POST", "/v1/chat/completions/", CHAT, "chat tiny"),
    ("POST", "/v1/chat/completions?x=1", CHAT, "chat tiny"),
    ("POST", "/proxy/engine-3/v1/chat/completions", CHAT, "chat tiny"),
    ("POST", "/chat/completions", CHAT, "chat tiny"),
    ("POST", "/v1/chat/completions/tokens", CHAT, "chat tiny"),
    ("POST", "/v1/completions", PROMPT, "text_completion tiny"),
    ("POST", "/proxy/v1/completions", PROMPT, "text_completion tiny"),
    ("POST", "/v1/responses", RESPONSES, "chat tiny"),
    ("POST", "/v1/embeddings", RESPONSES, "embeddings tiny"),
    ("POST", "/inference/v1/generate", IDS, "text_completion tiny"),
    # SkyRL's own, with what it replays of each token
    ("POST", "/skyrl/v1/generate", IDS, "text_completion tiny"),
    ("POST", "/v1/messages", CHAT, "chat tiny"),
    ("POST", "/generate", TEXT, "text_completion"),
    ("POST", "/generate/", {"prompts": ["a"]}, "text_completion"),
    ("PUT", "/generate", TEXT, "text_completion"),
    ("POST", "/api/chat", CHAT, "chat tiny"),
    ("POST", "/api/generate", PROMPT, "text_completion tiny"),
    ("POST", "/chat/", {"messages": [CHAT["messages"]]}, "chat"),
]
#: (method, path, body); each is a part of bringing weights, under the last part of its path.
WEIGHTS = [
    ("POST", "/update_weights_from_disk", DISK),
    ("POST", "/update_weights_from_tensor", TENSORS),
    ("POST", "/update_weights_from_distributed", NCCL),
    ("POST", "/update_weights_from_ipc", {"zmq_handles": {}}),
    ("POST", "/init_weights_update_group", GROUP),
    ("POST", "/destroy_weights_update_group", {"group_name": "g"}),
    ("POST", "/begin_weight_update", {}),
    ("POST", "/end_weight_update", {}),
    ("POST", "/update_weight_version", {"new_version": "13"}),
    ("POST", "/init_weight_transfer_engine", {"init_info": {}}),
    ("POST", "/shutdown_weight_transfer_engine", {}),
    ("POST", "/start_weight_update", {}),
    ("POST", "/start_draft_weight_update", {}),
    ("POST", "/update_weights", {"update_info": {}}),
    ("POST", "/finish_weight_update", {"weight_version": 13}),
    ("POST", "/load_lora_adapter", LORA),
    ("POST", "/load_lora_adapter_from_tensors", LORA),
    ("POST", "/unload_lora_adapter", {"lora_name": "a"}),
    ("POST", "/v1/load_lora_adapter", LORA),
    ("POST", "/v1/unload_lora_adapter", {"lora_name": "a"}),
    # The patch of SGLang that slime brings along.
    ("POST", "/post_process_weights", {"post_process_quantization": True}),
    # TRL's server.
    ("POST", "/init_communicator/", {"host": "0.0.0.0", "port": 1, "world_size": 2}),  # noqa: S104 - as TRL sends it
    ("POST", "/update_named_param/", {"name": "w", "dtype": "torch.bfloat16", "shape": [2]}),
    ("POST", "/batch_update_named_params/", {"params": []}),
    ("POST", "/close_communicator/", None),
    # AReaL
    ("POST", "/areal_init_weights_update_group", GROUP),
    ("POST", "/areal_set_update_weight_meta", NCCL),
    ("POST", "/areal_set_update_weight_meta_lora", NCCL),
    ("POST", "/areal_update_weights", DISK),
    ("POST", "/areal_update_weights_lora", DISK),
    ("POST", "/areal_update_weights_xccl", {}),
    ("POST", "/areal_update_weights_lora_xccl", {}),
    # SkyRL
    ("POST", "/init_weight_update_communicator", GROUP),
    ("POST", "/init_weight_transfer", GROUP),
    ("POST", "/finalize_weight_update", {}),
    # prime-rl
    ("POST", "/init_broadcaster", {"host": "localhost", "port": 1}),
    ("POST", "/reload_weights", {}),
]
#: (method, path, body); operations on memory, caches and requests.
MANAGEMENT = [
    ("POST", "/wake_up", None),
    ("POST", "/wake_up?tags=weights", None),
    ("POST", "/release_kv_cache_memory", None),
    ("POST", "/release_memory_occupation", TAGS),
    ("GET", "/release_memory_occupation", None),
    ("POST", "/resume_memory_occupation", TAGS),
    ("GET", "/resume_memory_occupation", None),
    ("POST", "/pause_generation", {"mode": "abort"}),
    ("POST", "/continue_generation", {}),
    ("POST", "/areal_pause_generation", {}),
    ("POST", "/areal_continue_generation", {}),
    ("POST", "/abort_request", {"rid": "", "abort_all": True}),
    ("POST", "/abort_requests", {"request_ids": ["a"]}),
    ("POST", "/flush_cache", {}),
    ("GET", "/flush_cache", None),
    ("POST", "/reset_prefix_cache", None),
    ("POST", "/reset_mm_cache", None),
    ("POST", "/reset_encoder_cache", None),
]
#: (method, path, body); names of other services too, known by the server.
COMMON = [
    ("POST", "/sleep?level=1", None),
    ("POST", "/pause", {}),
    ("POST", "/pause?mode=wait", {}),
    ("POST", "/resume", {}),
]
#: Near misses, and what engines and other services are asked beside.
OTHER = [
    ("GET", "/v1/models", None),
    ("GET", "/v1/chat/completions", None),
    ("DELETE", "/v1/chat/completions", None),
    ("POST", "/v1/chat/completions/render", CHAT),
    ("POST", "/v1/chat/completions/chatcmpl-1", {"metadata": {}}),
    ("GET", "/v1/chat/completions/chatcmpl-1/messages", None),
    ("POST", "/chat/completionsx", CHAT),
    ("POST", "/v1/chat", CHAT),
    ("POST", "/completions", PROMPT),
    ("POST", "/api/completions", PROMPT),
    ("POST", "/v1/completions/render", PROMPT),
    ("POST", "/v1/responses/resp_1/cancel", {}),
    ("GET", "/v1/responses/resp_1", None),
    ("POST", "/responses", RESPONSES),
    ("POST", "/v1/embedding", RESPONSES),
    ("POST", "/embeddings", RESPONSES),
    ("POST", "/v1/batches", {"endpoint": "/v1/chat/completions"}),
    ("POST", "/v1/files", {}),
    ("POST", "/v1/messages", PROMPT),
    ("POST", "/v1/messages/batches", CHAT),
    ("POST", "/api/chat", TEXT),
    ("POST", "/v1/audio/transcriptions", {}),
    ("POST", "/v1/images/generations", {}),
    ("POST", "/v1/rerank", {}),
    ("POST", "/tokenize", PROMPT),
    ("POST", "/v1/generate", TEXT),
    ("POST", "/api/generate", TEXT),
    ("POST", "/generate_stream", TEXT),
    ("POST", "/generates", TEXT),
    ("POST", "/Generate", TEXT),
    ("GET", "/generate", None),
    ("POST", "/inference/v2/generate", IDS),
    ("PUT", "/update_weights", {}),
    ("GET", "/update_weights_from_disk", None),
    ("POST", "/api/update_weights", {}),
    ("POST", "/v1/update_weights", {}),
    ("POST", "/weights", {}),
    ("POST", "/weight_checker", {"action": "checksum"}),
    ("GET", "/weight_info", None),
    ("GET", "/get_world_size", None),
    ("POST", "/collective_rpc", {"method": "report"}),
    ("POST", "/get_weights_by_name", {"name": "w"}),
    ("GET", "/v1/load_lora_adapter", None),
    ("POST", "/v2/load_lora_adapter", LORA),
    ("GET", "/is_sleeping", None),
    ("GET", "/is_paused", None),
    ("GET", "/sleep", None),
    ("GET", "/wake_up", None),
    ("POST", "/wake", None),
    ("POST", "/v1/sleep", {}),
    ("POST", "/jobs/7/pause", {}),
    ("POST", "/abort", {}),
    ("DELETE", "/flush_cache", None),
    ("POST", "/reset_cache", None),
    ("POST", "/update", {}),
    ("POST", "/start_profile", None),
    ("GET", "/server_info", None),
    ("GET", "/health", None),
    ("GET", "/metrics", None),
    ("POST", "/", {}),
    ("POST", "", {}),
]


def _name(row):
    return f"{row[0]} {row[1]}"


@pytest.fixture
def forget_engines(monkeypatch):
    """As in a program that has asked no engine yet."""
    monkeypatch.setattr(calls, "_engines", set())


def _send(client, method, url, body):
    """One request in the way of the client."""
    library, _, form = client.partition(".")
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    if library == "aiohttp":
        import aiohttp

        async def main():
            async with aiohttp.ClientSession() as session:
                async with session.request(method, url, data=data, headers=headers) as response:
                    await response.read()

        asyncio.run(main())
    elif library == "urllib3":
        import urllib3

        with urllib3.PoolManager(retries=False) as manager:
            manager.request(method, url, body=data, headers=headers)
    elif library == "requests":
        import requests

        requests.request(method, url, data=data, headers=headers, timeout=60)
    else:
        import importlib

        module = importlib.import_module(library)
        if form == "sync":
            module.request(method, url, content=data, headers=headers)
        else:

            async def post():
                async with module.AsyncClient() as made:
                    await made.request(method, url, content=data, headers=headers)

            asyncio.run(post())


@pytest.fixture
def one_client():
    if not INSTALLED:
        pytest.skip("no client is installed")
    return "requests" if "requests" in INSTALLED else INSTALLED[0]


def _spans(recorded):
    from otel_rl.inference.dropped_answers import record_abandoned

    # Answers that nobody has parsed.
    gc.collect()
    record_abandoned()
    return [span for span in recorded.spans if span.name not in ("rl.rank.step", "rl.loop")]


@pytest.mark.parametrize("row", TOKENS, ids=_name)
def test_a_request_for_tokens_is_a_model_call(row, one_client, server, instrumented, forget_engines):
    method, path, body, name = row
    _send(one_client, method, f"{server.url}{path}", body)
    [span] = _spans(instrumented)
    assert span.name == name
    assert len(server.headers("traceparent")) == 1


@pytest.mark.parametrize("row", [*WEIGHTS, *MANAGEMENT], ids=_name)
def test_a_request_that_changes_an_engine_is_an_operation(row, one_client, server, instrumented, forget_engines):
    method, path, body = row
    with step(iteration=1):
        _send(one_client, method, f"{server.url}{path}", body)
    [span] = _spans(instrumented)
    assert span.name == "rl.sync"
    assert span.attributes["rl.sync.operation"] == path.partition("?")[0].rstrip("/").rpartition("/")[2]
    assert len(server.headers("traceparent")) == 1
    version = {"12": "12", "13": "13"}.get(str((body or {}).get("weight_version", (body or {}).get("new_version"))))
    assert span.attributes.get("rl.policy.version") == version


@pytest.mark.parametrize(("rows", "brings"), [(WEIGHTS, True), (MANAGEMENT, False), (COMMON, False)])
def test_what_brings_weights_is_told_from_what_manages_the_engine(rows, brings):
    found = {path: paths.target_of(method, path.partition("?")[0]) for method, path, _ in rows}
    assert {path: target and target.brings_weights for path, target in found.items()} == dict.fromkeys(found, brings)


@pytest.mark.parametrize("row", COMMON, ids=_name)
def test_a_common_name_is_an_operation_of_a_server_that_is_an_engine(
    row, one_client, server, instrumented, forget_engines
):
    method, path, body = row
    with EngineServer() as other:
        _send(one_client, method, f"{server.url}{path}", body)
        assert _spans(instrumented) == []
        assert server.headers("traceparent") == []
        _send(one_client, "POST", f"{other.url}/wake_up", None)
        _send(one_client, method, f"{server.url}{path}", body)
        assert len(_spans(instrumented)) == 1
        _send(one_client, method, f"{other.url}{path}", body)
    operations = [span.attributes["rl.sync.operation"] for span in _spans(instrumented)]
    assert operations == ["wake_up", path.partition("?")[0][1:]]


@pytest.mark.parametrize("row", OTHER, ids=_name)
def test_other_traffic_has_no_span_and_no_trace_context(row, one_client, server, instrumented, forget_engines):
    method, path, body = row
    # Also of a server that is an engine.
    calls._engines.add(("127.0.0.1", server.server_port))
    _send(one_client, method, f"{server.url}{path}", body)
    assert _spans(instrumented) == []
    assert server.headers("traceparent") == []


def test_each_client_tells_them_apart(client, server, instrumented, forget_engines):
    _send(client, "GET", f"{server.url}/flush_cache", None)
    _send(client, "PUT", f"{server.url}/generate", TEXT)
    _send(client, "PUT", f"{server.url}/update_weights", {})
    _send(client, "POST", f"{server.url}/v1/chat/completions/render", CHAT)
    assert sorted(span.name for span in _spans(instrumented)) == ["rl.sync", "text_completion"]


def test_no_path_of_the_table_is_missing_in_the_list():
    """Who adds one to the table adds it here too, from the source of the server."""
    listed = {path.partition("?")[0].rstrip("/") for _, path, *_ in (*TOKENS, *WEIGHTS, *MANAGEMENT, *COMMON)}
    assert set(paths._PRIVATE) - listed == set()
    assert not [end for end in paths._ANYWHERE if not any(path.endswith(end) for path in listed)]


@pytest.mark.parametrize(
    ("row", "anywhere"), [*((row, True) for row in TOKENS[:13]), *((row, False) for row in TOKENS[13:])]
)
def test_the_protocol_of_openai_counts_on_any_host_and_the_engines_own_on_private_ones(row, anywhere):
    found = paths.target_of(row[0], row[1].partition("?")[0])
    assert found.anywhere is anywhere
