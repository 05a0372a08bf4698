"""The ways in which RL trainers call engines, as their sources have them, and a gateway between.

slime (``slime/utils/http_utils.py``, ``_post``), verl (``sglang_rollout/http_server_engine.py``) and TRL's real client.
"""

from __future__ import annotations

import asyncio

import pytest
from support.engine_server import CHAT_EVENTS, SGLANG, EngineServer
from support.http_gateway import http_gateway
from unit.inference_http.http_posts import post
from unit.inference_http.http_streams import COMMON, read_stream

from otel_rl import rollout, step

PAYLOAD = {
    "input_ids": [1, 2, 3],
    "sampling_params": {"max_new_tokens": 16, "temperature": 1.0},
    "return_logprob": True,
}
ATTEMPTS = 60


def _sent(server):
    """Span ids of the trace contexts that have arrived, one of each request."""
    found = []
    for _, lines in server.requests:
        [traceparent] = [value for name, value in lines if name.lower() == "traceparent"]
        found.append(traceparent.split("-")[2])
    return found


def _ids(spans):
    return [f"{span.context.span_id:016x}" for span in spans]


def _named(recorded, name):
    return [span for span in recorded.spans if span.name == name]


# -- slime ---------------------------------------------------------------------------------------------------------


async def _slime_post(client, url, payload, max_retries=ATTEMPTS):
    """Its loop, without the second that it waits in between."""
    attempts = 0
    while True:
        try:
            response = await client.post(url, json=payload or {})
            response.raise_for_status()
            try:
                return response.json()
            except ValueError:
                return response.text
        except Exception as error:
            attempts += 1
            getattr(getattr(error, "response", None), "text", None)
            if attempts >= max_retries:
                raise
            await asyncio.sleep(0)


@pytest.fixture
def slime_client():
    httpx = pytest.importorskip("httpx")
    return lambda: httpx.AsyncClient(limits=httpx.Limits(max_connections=8), timeout=httpx.Timeout(None))


def test_rollouts_that_share_a_client_of_slime_keep_their_calls(slime_client, server, instrumented):
    async def one(client, number):
        with rollout(rollout_id=f"r{number}"):
            return await _slime_post(client, f"{server.url}/generate", PAYLOAD)

    async def main():
        async with slime_client() as client:
            return await asyncio.gather(*(one(client, number) for number in range(16)))

    assert asyncio.run(main()) == [SGLANG] * 16
    made, rollouts = _named(instrumented, "text_completion"), _named(instrumented, "rl.rollout")
    assert sorted(_sent(server)) == sorted(_ids(made))
    assert sorted(span.parent.span_id for span in made) == sorted(span.context.span_id for span in rollouts)
    assert {span.attributes["rl.rollout.model_calls"] for span in rollouts} == {1}
    assert {span.attributes["rl.rollout.output_tokens"] for span in rollouts} == {3}


def test_each_attempt_of_slime_is_a_call_and_the_last_one_brings_the_answer(slime_client, server, instrumented):
    server.failures = ATTEMPTS - 1

    async def main():
        async with slime_client() as client:
            with rollout():
                return await _slime_post(client, f"{server.url}/generate", PAYLOAD)

    assert asyncio.run(main()) == SGLANG
    *refused, answered = _named(instrumented, "text_completion")
    assert {span.attributes["error.type"] for span in refused} == {"503"}
    assert "error.type" not in answered.attributes
    assert _sent(server) == _ids([*refused, answered])
    assert len(set(_sent(server))) == ATTEMPTS
    found = instrumented.span("rl.rollout").attributes
    assert (found["rl.rollout.model_calls"], found["rl.rollout.model_errors"]) == (ATTEMPTS, ATTEMPTS - 1)


def test_an_engine_that_never_answers_slime_raises_what_it_raised(slime_client, server, instrumented):
    httpx = pytest.importorskip("httpx")
    server.failures = ATTEMPTS

    async def main(url):
        async with slime_client() as client:
            return await _slime_post(client, url, PAYLOAD)

    with pytest.raises(httpx.HTTPStatusError) as raised:
        asyncio.run(main(f"{server.url}/generate"))
    assert raised.value.response.json() == {"error": {"message": "overloaded"}}
    assert len(_named(instrumented, "text_completion")) == ATTEMPTS
    instrumented.clear()
    url = f"{server.url}/generate"
    server.shutdown()
    server.server_close()
    with pytest.raises(httpx.ConnectError):
        asyncio.run(main(url))
    assert {span.attributes["error.type"] for span in instrumented.spans} == {"httpx.ConnectError"}
    assert len(instrumented.spans) == ATTEMPTS


# -- verl ----------------------------------------------------------------------------------------------------------


def _verl(url, endpoint, payload=None, method="POST"):
    """Its synchronous adapter: a function of the module ``requests``, and no session."""
    import requests

    target = f"{url}/{endpoint}"
    if method == "GET":
        response = requests.get(target, timeout=60)
    else:
        response = requests.post(target, json=payload or {}, timeout=60)
    response.raise_for_status()
    return {} if response.status_code == 204 or not response.content else response.json()


async def _verl_async(url, endpoint, payload=None, method="POST"):
    """Its asynchronous adapter: a session of aiohttp for each request, and JSON of whatever type."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=2000, limit_per_host=500, ttl_dns_cache=300, use_dns_cache=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        given = {} if method == "GET" else {"json": payload or {}}
        async with session.request(method, f"{url}/{endpoint}", **given) as response:
            response.raise_for_status()
            return {} if response.content_length == 0 else await response.json(content_type=None)


@pytest.fixture(params=["requests", "aiohttp"])
def verl(request):
    pytest.importorskip(request.param)
    if request.param == "requests":
        return _verl
    return lambda *args, **given: asyncio.run(_verl_async(*args, **given))


def test_a_step_of_verl_is_a_call_and_the_operations_around_it(verl, server, instrumented):
    with step(iteration=1):
        verl(server.url, "resume_memory_occupation", {"tags": ["weights"]})
        verl(server.url, "update_weights_from_tensor", {"serialized_named_tensors": ["AA=="], "flush_cache": False})
        verl(server.url, "flush_cache", method="GET")
        verl(server.url, "resume_memory_occupation", {"tags": ["kv_cache"]})
        assert verl(server.url, "generate", PAYLOAD) == SGLANG
        verl(server.url, "abort_request", {"rid": "", "abort_all": True})
        verl(server.url, "release_memory_occupation", {"tags": None})
        verl(server.url, "v1/models", method="GET")
    operations = [span.attributes["rl.sync.operation"] for span in _named(instrumented, "rl.sync")]
    assert operations == [
        "resume_memory_occupation",
        "update_weights_from_tensor",
        "flush_cache",
        "resume_memory_occupation",
        "abort_request",
        "release_memory_occupation",
    ]
    [call] = _named(instrumented, "text_completion")
    assert call.attributes["gen_ai.usage.output_tokens"] == 3
    assert call.attributes["gen_ai.request.max_tokens"] == 16
    *followed, (_, last) = server.requests
    assert not [name for name, _ in last if name.lower() == "traceparent"]
    assert [sum(name.lower() == "traceparent" for name, _ in lines) for _, lines in followed] == [1] * 7


def test_a_refusal_reaches_verl_as_the_error_of_its_client(verl, server, instrumented):
    server.failures = 1
    with pytest.raises(Exception, match="503") as raised:
        verl(server.url, "generate", PAYLOAD)
    assert type(raised.value).__name__ in ("HTTPError", "ClientResponseError")
    assert instrumented.span("text_completion").attributes["error.type"] == "503"


# -- TRL -----------------------------------------------------------------------------------------------------------


def _choice(index, tokens):
    logprobs = {
        "text_offset": [0] * tokens,
        "tokens": [f"token_id:{number}" for number in range(tokens)],
        "token_logprobs": [-0.5] * tokens,
        "top_logprobs": [{f"token_id:{number}": -0.5} for number in range(tokens)],
    }
    ids = {"prompt_token_ids": [1, 2], "token_ids": list(range(tokens))}
    return {"index": index, "text": "x", "finish_reason": "stop", "logprobs": logprobs, **ids}


def _completions(body):
    number = len(body["prompt"]) * body["n"]
    choices = [_choice(index, 3) for index in range(number)]
    usage = {"prompt_tokens": 2 * len(body["prompt"]), "completion_tokens": 3 * number, "total_tokens": 0}
    return {"id": "cmpl-1", "object": "text_completion", "model": "tiny", "choices": choices, "usage": usage}


def _chat(body):
    content = [{"token": "token_id:1", "logprob": -0.5, "bytes": None, "top_logprobs": []}] * 3
    message = {"role": "assistant", "content": "x"}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "token_ids": [1, 2, 3]}
    usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    return {
        "id": "chatcmpl-1",
        "model": "tiny",
        "prompt_token_ids": [1, 2],
        "choices": [{**choice, "logprobs": {"content": content}}],
        "usage": usage,
    }


@pytest.fixture
def trl_client(server, instrumented, monkeypatch):
    """TRL's client without vLLM, of which generation needs nothing."""
    pytest.importorskip("requests")
    module = pytest.importorskip("trl.generation.vllm_client")
    monkeypatch.setattr(module, "is_vllm_available", lambda *_, **__: True)
    server.answers = {
        "/v1/models": lambda _: {"data": [{"id": "tiny"}]},
        "/v1/completions": _completions,
        "/v1/chat/completions": _chat,
        "/reset_prefix_cache": lambda _: {"success": True},
    }
    made = module.VLLMClient(base_url=server.url)
    yield made
    made.session.close()


def test_a_batch_of_the_client_of_trl_is_one_call_with_its_tokens(trl_client, server, instrumented):
    assert instrumented.spans == []
    server.requests.clear()
    with step(iteration=1):
        answer = trl_client.generate(["a", "b"], n=2, max_tokens=3)
    assert [len(ids) for ids in answer["completion_ids"]] == [3] * 4
    [call] = _named(instrumented, "text_completion tiny")
    found = call.attributes
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (4, 12)
    assert found["rl.inference.token_ids.count"] == found["rl.inference.logprobs.count"] == 12
    assert found["gen_ai.response.finish_reasons"] == ("stop",) * 4
    assert _sent(server) == _ids([call])
    assert instrumented.span("rl.rank.step").attributes["rl.engine.requests"] == 2


def test_each_conversation_of_the_client_of_trl_is_a_call(trl_client, server, instrumented):
    server.requests.clear()
    conversations = [[{"role": "user", "content": f"{number}"}] for number in range(5)]
    answer = trl_client.chat(conversations, max_tokens=3)
    assert len(answer["completion_ids"]) == 5
    made = _named(instrumented, "chat tiny")
    assert sorted(_sent(server)) == sorted(_ids(made))
    assert len(made) == 5
    assert {span.attributes["rl.inference.logprobs.count"] for span in made} == {3}


def test_a_weight_update_of_the_client_of_trl_is_made_of_its_requests(trl_client, server, instrumented):
    server.requests.clear()
    with step(iteration=1):
        with trl_client.weight_update():
            # The tensors themselves go over NCCL.
            trl_client._post(f"{server.url}/update_weights", json={"update_info": {"names": ["w"]}})
        trl_client.reset_prefix_cache()
    operations = [span.attributes["rl.sync.operation"] for span in _named(instrumented, "rl.sync")]
    assert operations == ["start_weight_update", "update_weights", "finish_weight_update", "reset_prefix_cache"]
    assert len(_sent(server)) == 4


# -- a gateway -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[(), ("--instrumented",)], ids=["plain", "instrumented"])
def gateway(request):
    """The URL of a gateway, and the server behind it."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("httpx")
    with EngineServer() as behind, http_gateway(behind.url, *request.param) as url:
        yield url, behind


def test_a_gateway_hands_the_trace_context_and_the_baggage_of_each_client_on_once(gateway, instrumented):
    from unit.inference_http.http_posts import INSTALLED

    url, server = gateway
    for client in INSTALLED:
        instrumented.clear()
        with rollout(rollout_id="r1"):
            assert post(client, f"{url}/generate", json={"text": "hi"}) == SGLANG
        [call] = _named(instrumented, "text_completion")
        [traceparent] = server.headers("traceparent")
        assert traceparent.split("-")[1:3] == [f"{call.context.trace_id:032x}", f"{call.context.span_id:016x}"], client
        assert server.headers("baggage") == ["rl.rollout.id=r1"], client
        assert call.attributes["gen_ai.usage.output_tokens"] == 3, client


def test_a_stream_through_a_gateway_has_what_its_events_say(gateway, instrumented):
    url, server = gateway
    server.chunks = CHAT_EVENTS
    for client, way in COMMON:
        instrumented.clear()
        body = {"model": "tiny", "messages": [], "stream": True}
        read_stream(client, way, f"{url}/v1/chat/completions", body, lambda piece: True)
        [call] = _named(instrumented, "chat tiny")
        assert call.attributes["gen_ai.usage.output_tokens"] == 5, client
        assert call.attributes["rl.inference.stream.ended"] == "completed", client
        assert len(server.headers("traceparent")) == 1, client


def test_a_refusal_and_an_error_in_the_body_reach_the_program_through_a_gateway(gateway, instrumented, monkeypatch):
    url, server = gateway
    server.failures = 1
    assert post("httpx.sync", f"{url}/generate", read="status", json={"text": "hi"}) == 503
    monkeypatch.setattr(server, "raw", b'{"object": "error", "type": "InternalServerError", "code": 500}')
    assert post("httpx.sync", f"{url}/generate", json={"text": "hi"})["code"] == 500
    refused, failed = _named(instrumented, "text_completion")
    assert refused.attributes["error.type"] == "503"
    assert failed.attributes["error.type"] == "InternalServerError"
