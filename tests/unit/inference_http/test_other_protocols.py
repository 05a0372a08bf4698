"""Model calls over HTTP in the protocols of Anthropic and Ollama, and at paths that the user declares."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
from typing import Any

import pytest
from support.fake_models import FakeModels, message_events
from support.fake_openai import CHAT
from unit.inference_http.http_posts import INSTALLED, post

import otel_rl
from otel_rl.core import settings
from otel_rl.inference import servers
from otel_rl.inference.dropped_answers import record_abandoned
from otel_rl.inference.http import services
from otel_rl.inference.messages_protocol import MessagesAnswer
from otel_rl.training import trajectories

MESSAGES: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 16,
    "messages": [{"role": "user", "content": "planted"}],
}
OLLAMA: dict[str, Any] = {"model": "llama", "messages": MESSAGES["messages"], "options": {"num_predict": 16}}
GENERATE: dict[str, Any] = {"model": "llama", "prompt": "planted"}
#: (path, body, name of the span, provider, model that answered)
CALLS = [
    ("/v1/messages", MESSAGES, "chat claude", "anthropic", "claude-served"),
    ("/v1/messages?beta=true", MESSAGES, "chat claude", "anthropic", "claude-served"),
    ("/api/chat", OLLAMA, "chat llama", "ollama", "llama-served"),
    ("/api/generate", GENERATE, "text_completion llama", "ollama", "llama-served"),
]


@pytest.fixture
def server():
    with FakeModels() as running:
        yield running


@pytest.fixture
def declare(monkeypatch):
    def set_to(value):
        monkeypatch.setenv("OTEL_RL_MODEL_PATHS", value)
        settings.reset()
        services.forget()

    yield set_to
    monkeypatch.undo()
    settings.reset()
    services.forget()


def _stream(client, url, body):
    """Read a stream as programs do."""
    library, _, form = client.partition(".")
    if form == "sync":
        with importlib.import_module(library).Client() as made, made.stream("POST", url, json=body) as response:
            return list(response.iter_lines())
    return post(client, url, "text", json=body)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("path", "body", "name", "provider", "model"), CALLS)
def test_it_is_one_call_with_all_tokens(path, body, name, provider, model, streamed, client, instrumented, server):
    if streamed and client not in ("httpx.sync", "httpx2.sync"):
        pytest.skip("chunks of every client: test_streamed_answers.py")
    body = {**body, "stream": streamed}
    with otel_rl.rollout():
        (_stream if streamed else post)(
            client, f"{server.url}{path}", **({"body": body} if streamed else {"json": body})
        )
    (span,) = [span for span in instrumented.spans if span.name != "rl.rollout"]
    found = dict(span.attributes)
    assert span.name == name
    assert found["gen_ai.provider.name"] == provider
    assert found["gen_ai.response.model"] == model
    assert found["gen_ai.usage.input_tokens"] == (17 if provider == "anthropic" else 11)
    assert found["gen_ai.usage.output_tokens"] == 7
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found.get("rl.inference.stream.ended") == ("completed" if streamed else None)
    assert found.get("gen_ai.request.max_tokens") == (None if "prompt" in body else 16)
    assert not [key for key, value in found.items() if "planted" in str(value)]
    trajectories.record()
    (row,) = [record.body for record in instrumented.events("rl.trajectories")]
    assert row["rl.rollout.model_calls"] == [1]


CONVERSE: dict[str, Any] = {
    "messages": [{"role": "user", "content": [{"text": "planted"}]}],
    "inferenceConfig": {"maxTokens": 16},
}
GEMINI: dict[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": "planted"}]}],
    "generationConfig": {"maxOutputTokens": 16},
}
#: (path, body, name of the span, provider, input tokens)
MODEL_IN_PATH = [
    ("/v1beta/models/gemini-x:generateContent", GEMINI, "generate_content gemini-x", "gcp.gemini", 11),
    ("/model/anthropic.claude-x%3A0/converse", CONVERSE, "chat anthropic.claude-x:0", "aws.bedrock", 17),
]


@pytest.mark.parametrize(("path", "body", "name", "provider", "tokens"), MODEL_IN_PATH)
def test_a_call_whose_path_names_the_model_is_one_call_with_its_tokens(
    path, body, name, provider, tokens, client, instrumented, server
):
    post(client, f"{server.url}{path}", json=body)
    (span,) = instrumented.spans
    found = dict(span.attributes)
    assert (span.name, found["gen_ai.provider.name"]) == (name, provider)
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (tokens, 7)
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["gen_ai.request.max_tokens"] == 16
    assert not [key for key, value in found.items() if "planted" in str(value)]


def test_a_stream_of_gemini_has_its_tokens_and_one_of_bedrock_only_how_it_ended(instrumented, server):
    _stream("httpx.sync", f"{server.url}/v1beta/models/gemini-x:streamGenerateContent?alt=sse", GEMINI)
    _stream("httpx.sync", f"{server.url}/model/anthropic.claude-x/converse-stream", CONVERSE)
    gemini, bedrock = instrumented.spans
    assert gemini.attributes["gen_ai.usage.input_tokens"] == 11
    assert gemini.attributes["gen_ai.usage.output_tokens"] == 7
    assert "gen_ai.usage.input_tokens" not in bedrock.attributes
    assert (bedrock.name, bedrock.status.is_unset) == ("chat anthropic.claude-x", True)
    assert [span.attributes["rl.inference.stream.ended"] for span in (gemini, bedrock)] == ["completed"] * 2


@pytest.mark.parametrize("path", ["/v1/models/m:generateContent", "/v1/model/m/converse"])
def test_another_service_with_such_a_path_is_no_model(path, instrumented, server):
    post("httpx.sync", f"{server.url}{path}", "status", json={"units": "kg"})
    assert instrumented.spans == []


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_ollama_streams_unless_the_request_says_otherwise(path, instrumented, server):
    _stream("httpx.sync", f"{server.url}{path}", OLLAMA if path == "/api/chat" else GENERATE)
    (span,) = instrumented.spans
    assert span.attributes["rl.inference.stream.ended"] == "completed"
    assert span.attributes["gen_ai.usage.output_tokens"] == 7


@pytest.mark.shape("turns", "stream", "parallel tools", of=("messages over HTTP", "ollama"))
@pytest.mark.shape("failing tool", of=("messages over HTTP",))
@pytest.mark.parametrize("path", ["/v1/messages", "/api/chat"])
@pytest.mark.parametrize("streamed", [False, True])
def test_tools_that_an_answer_asks_for_count_by_their_results(path, streamed, instrumented, server):
    names = ("add", "bad")
    if path == "/api/chat":
        tools: list[Any] = [{"type": "function", "function": {"name": name}} for name in names]
        uses = [{"function": {"name": name, "arguments": {"a": 1}}} for name in names]
        results = [{"role": "tool", "tool_name": name, "content": "planted"} for name in names]
        answered = [{"role": "assistant", "content": "", "tool_calls": uses}, *results]
    else:
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        uses = [
            {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
            for number, name in enumerate(names, 1)
        ]
        results = [{"type": "tool_result", "tool_use_id": use["id"], "is_error": use["name"] == "bad"} for use in uses]
        answered = [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    body = {**(OLLAMA if path == "/api/chat" else MESSAGES), "tools": tools, "stream": streamed}
    with otel_rl.rollout():
        _stream("httpx.sync", f"{server.url}{path}", body)
        _stream("httpx.sync", f"{server.url}{path}", {**body, "messages": [*MESSAGES["messages"], *answered]})
    first, _ = [span for span in instrumented.spans if span.name != "rl.rollout"]
    assert first.attributes["rl.inference.tool_calls"] == names
    trajectories.record()
    (record,) = instrumented.events("rl.trajectories")
    row = {key.removeprefix("rl.rollout."): values[0] for key, values in record.body.items()}
    # Ollama's messages have no sign of a failure.
    expected = (2, 2, 34, 14, 2, 1) if path == "/v1/messages" else (2, 2, 22, 14, 2, None)
    names_of_row = ("turns", "model_calls", "input_tokens", "output_tokens", "tool_calls", "tool_errors")
    assert tuple(row.get(name) for name in names_of_row) == expected


@pytest.mark.shape("cancelled", of=("messages over HTTP", "ollama"))
@pytest.mark.parametrize("path", ["/v1/messages", "/api/chat"])
def test_a_task_that_is_cancelled_cancels_its_call(path, instrumented, server):
    import httpx

    body = {**(MESSAGES if path == "/v1/messages" else OLLAMA), "model": "slow", "stream": False}

    async def run():
        async with httpx.AsyncClient() as client:
            task = asyncio.create_task(client.post(f"{server.url}{path}", json=body))
            await asyncio.to_thread(server.wait_for_slow_request)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with otel_rl.rollout():
        asyncio.run(run())
    (span,) = [span for span in instrumented.spans if span.name != "rl.rollout"]
    assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"
    trajectories.record()
    (record,) = instrumented.events("rl.trajectories")
    assert record.body["rl.rollout.model_calls"] == [1]
    assert record.body["rl.rollout.turns"] == [0]


@pytest.mark.shape("stream left early", of=("messages over HTTP", "ollama"))
@pytest.mark.parametrize("path", ["/v1/messages", "/api/chat"])
@pytest.mark.parametrize("model", ["breaking", "chunk_no_json", "stalling"])
@pytest.mark.bad_input(
    "chunk that is no JSON",
    of=(
        "messages over HTTP",
        "ollama",
    ),
)
def test_a_stream_that_breaks_or_is_left_is_a_call_all_the_same(path, model, instrumented, server):
    import httpx

    body = {**(MESSAGES if path == "/v1/messages" else OLLAMA), "model": model, "stream": True}
    with httpx.Client() as made, made.stream("POST", f"{server.url}{path}", json=body) as response:
        lines = response.iter_lines()
        if model == "stalling":
            next(lines)
        else:
            list(lines)
    (span,) = instrumented.spans
    assert span.attributes["rl.inference.stream.ended"] == ("closed" if model == "stalling" else "completed")
    assert ("error.type" in span.attributes) == (model == "breaking")
    if model == "chunk_no_json":
        assert span.attributes["gen_ai.usage.output_tokens"] == 7


@pytest.mark.bad_input("200 with an error", "no usage", of=("messages over HTTP", "ollama"))
@pytest.mark.parametrize("path", ["/v1/messages", "/api/chat"])
@pytest.mark.parametrize("model", ["error_with_200", "no_json", "no_usage"])
def test_bad_answers_fail_only_if_they_report_an_error(model, path, instrumented, server):
    body = {**(MESSAGES if path == "/v1/messages" else OLLAMA), "model": model, "stream": False}
    post("httpx.sync", f"{server.url}{path}", "text", json=body)
    gc.collect()
    record_abandoned()
    (span,) = instrumented.spans
    assert "gen_ai.usage.output_tokens" not in span.attributes
    assert span.attributes.get("error.type") == ("overloaded_error" if model == "error_with_200" else None)


@pytest.mark.parametrize(
    ("kind", "is_call"), [("application/json", True), ("application/x-www-form-urlencoded", False), (None, False)]
)
@pytest.mark.parametrize("path", ["/api/v1/messages", "/api/chat"])
def test_a_body_that_is_not_read_counts_only_if_it_is_json(path, kind, is_call, client, instrumented, server):
    long = json.dumps({**OLLAMA, "stream": False, "padding": "x" * 40_000}).encode()
    with otel_rl.rollout():
        post(client, f"{server.url}{path}", "status", content=long, headers={"Content-Type": kind} if kind else {})
    assert len(instrumented.spans) == 1 + is_call
    assert ("traceparent" in server.requests[-1][1]) == is_call


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"messages": [{"to": "+1", "text": "a message"}]}),
        ("/api/chat", {"model": "a car"}),
        ("/v1/messages", {"to": "+1", "text": "a message"}),
        ("/api/chat", {"text": "hi"}),
        ("/v1/messages/count_tokens", MESSAGES),
    ],
)
def test_another_service_at_such_a_path_is_no_model(path, body, instrumented, server):
    post("httpx.sync", f"{server.url}{path}", "status", json=body)
    assert instrumented.spans == []


def test_later_counts_of_a_stream_replace_earlier_ones():
    answer = MessagesAnswer()
    for event in message_events({**_message(), "usage": {"input_tokens": 3, "output_tokens": 9}}):
        answer.observe_chunk(event)
    assert answer.tokens == (3, 9)


def _message():
    return {"id": "m", "model": "x", "content": [{"type": "text", "text": "a b"}], "stop_reason": "max_tokens"}


@pytest.mark.parametrize(
    "source", [None, [], {}, {"content": 1, "usage": []}, {"usage": {"input_tokens": "x"}}, "text"]
)
def test_no_answer_of_any_form_raises(source):
    answer = MessagesAnswer(captures=True)
    answer.observe(source)
    for kind in ("message_start", "content_block_start", "content_block_delta", "message_delta", "error", None):
        for key in ("message", "content_block", "delta", "error", "usage"):
            answer.observe_chunk({"type": kind, key: source, "index": source})
    assert answer.tokens == (None, None)


# -- declared paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", INSTALLED)
@pytest.mark.parametrize("entry", ["/complete", "127.0.0.*:{port}/my/complete", "http://127.0.0.1:{port}/complete"])
def test_a_declared_path_is_a_model_call(entry, client, instrumented, server, declare):
    declare(entry.format(port=server.server_port))
    body = {"model": "own", "messages": CHAT["choices"][0]["message"]}
    assert post(client, f"{server.url}/my/complete", json=body)["model"] == "own-served"
    (span,) = instrumented.spans
    assert (span.name, span.attributes["gen_ai.usage.output_tokens"]) == ("chat own", 7)
    assert "traceparent" in server.requests[0][1]


@pytest.mark.parametrize("entry", ["10.0.0.1/complete", "127.0.0.1:1/complete", "/other"])
def test_a_path_declared_elsewhere_is_none(entry, client, instrumented, server, declare):
    declare(entry)
    post(client, f"{server.url}/my/complete", json={"model": "own", "prompt": "x"})
    assert instrumented.spans == []


@pytest.mark.parametrize(
    "entry", ["complete", "host:port/x", "ftp://h/x", "h/x?y", "http://h", "/a b", "user@h/x", "/a*"]
)
def test_a_bad_entry_is_named_in_one_line(entry):
    loaded, complaints = settings.load({"OTEL_RL_MODEL_PATHS": f"/good,{entry}"})
    assert loaded.model_paths is None
    (line,) = complaints
    assert f'OTEL_RL_MODEL_PATHS="/good,{entry}" is not valid (accepted: /path or http://host:port/path' in line


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.mistral.ai", "mistral_ai"),
        ("api.groq.com", "groq"),
        ("api.together.xyz", "together_ai"),
        ("router.huggingface.co", "hugging_face"),
        ("x1.us-east-1.aws.endpoints.huggingface.cloud", "hugging_face"),
        ("api.cohere.com", "cohere"),
        ("dashscope-intl.aliyuncs.com", "dashscope"),
        ("us-central1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        ("router.huggingface.co.example.org", "openai"),
    ],
)
def test_known_hosts_have_their_provider(host, provider):
    assert servers.provider_of(host) == provider


def test_content_of_messages_is_recorded_by_the_switch(instrumented, server, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}]
    _stream("httpx.sync", f"{server.url}/v1/messages", {**MESSAGES, "messages": messages, "stream": True})
    (span,) = instrumented.spans
    (sent,) = json.loads(span.attributes["gen_ai.input.messages"])
    assert [part["type"] for part in sent["parts"]] == ["text", "blob"]
    (answered,) = json.loads(span.attributes["gen_ai.output.messages"])
    assert answered["parts"] == [{"type": "text", "content": "planted answer"}]
