"""Instrumenting and uninstrumenting: what is replaced, that it is put back exactly, and that failures stay inside."""

from __future__ import annotations

import gc
import inspect
import logging

import openai
import pytest
from openai import _base_client

from otel_rl.core import instrumentor_status
from otel_rl.inference import calls, dropped_answers
from otel_rl.inference.answers import Answer
from otel_rl.instrumentors import stainless_clients
from otel_rl.instrumentors.openai import OpenAIInstrumentor

TARGETS = [
    (_base_client.SyncAPIClient, "request"),
    (_base_client.AsyncAPIClient, "request"),
    (_base_client.BaseClient, "_build_headers"),
    *((getattr(_base_client, name), "close") for name in ("Stream", "AsyncStream", "APIResponse", "AsyncAPIResponse")),
    *((getattr(_base_client, name), "parse") for name in ("LegacyAPIResponse", "APIResponse", "AsyncAPIResponse")),
]


def _raw():
    return [vars(owner).get(name) for owner, name in TARGETS]


def test_uninstrumenting_restores_the_original_objects(recorded):
    before = _raw()
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    replaced = _raw()
    OpenAIInstrumentor().uninstrument()
    assert all(new is not old for new, old in zip(replaced, before, strict=True))
    assert all(now is old for now, old in zip(_raw(), before, strict=True))


def test_signatures_names_and_kinds_of_what_is_replaced_stay(recorded):
    before = [(inspect.signature(vars(o)[n]), vars(o)[n].__qualname__) for o, n in TARGETS]
    kinds = [inspect.iscoroutinefunction(vars(o)[n]) for o, n in TARGETS]
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    try:
        assert [(inspect.signature(vars(o)[n]), vars(o)[n].__qualname__) for o, n in TARGETS] == before
        assert [inspect.iscoroutinefunction(vars(o)[n]) for o, n in TARGETS] == kinds
    finally:
        OpenAIInstrumentor().uninstrument()


def test_a_client_made_before_instrumenting_is_instrumented(recorded, server):
    with openai.OpenAI(api_key="none", base_url=server.base_url) as client:
        OpenAIInstrumentor().instrument(skip_dep_check=True)
        try:
            client.embeddings.create(model="tiny", input="x")
        finally:
            OpenAIInstrumentor().uninstrument()
        client.embeddings.create(model="tiny", input="x")
    assert recorded.span("embeddings tiny")


def test_the_state_is_reported(instrumented):
    assert instrumentor_status.snapshot()["otel_rl_openai"]["state"] == instrumentor_status.ACTIVE


def test_a_defect_of_ours_reaches_neither_the_program_nor_its_stream(recorded, client, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("ours")

    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    monkeypatch.setattr(Answer, "observe", fail)
    monkeypatch.setattr(Answer, "observe_chunk", fail)
    monkeypatch.setattr(calls.InferenceCall, "_finish", fail)
    monkeypatch.setattr(stainless_clients.propagation, "inject", fail)
    with caplog.at_level(logging.WARNING, logger="otel_rl"):
        chat = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
        assert client.chat.completions.create(**chat).usage.total_tokens == 10
        assert len(list(client.chat.completions.create(**chat, stream=True))) > 1
    assert "internal error" in caplog.text


class _Transported:
    """What a transport of the program's own may return in place of a response of httpx."""

    closed = False

    @property
    def is_closed(self):
        raise RuntimeError("the program's")

    def close(self):
        self.closed = True


def test_a_response_that_cannot_say_whether_it_is_closed_is_closed_all_the_same(recorded, client, monkeypatch):
    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS")
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    with client.chat.completions.with_streaming_response.create(**chat) as response:
        response.http_response, real = _Transported(), response.http_response
        response.close()
        assert response.http_response.closed
        response.http_response = real
    assert recorded.span("chat tiny").attributes["rl.inference.retries"] == 0


def test_nothing_is_recorded_where_no_sdk_is_set_up(recorded, client, monkeypatch):
    from otel_rl.telemetry import scope

    monkeypatch.setattr(scope, "enabled", lambda: False)
    assert client.embeddings.create(model="tiny", input="x").data
    assert recorded.spans == []


@pytest.mark.parametrize("how", ["dropped", "closed", "read to its end"])
def test_a_forked_child_does_not_record_a_stream_that_its_parent_holds(how, recorded, client):
    from otel_rl.telemetry import lifecycle

    held = [client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}], stream=True)]
    lifecycle.run_after_fork_callbacks()
    if how == "closed":
        held[0].close()
    elif how == "read to its end":
        assert list(held[0])
    held.clear()
    gc.collect()
    dropped_answers.record_abandoned()
    assert recorded.spans == []
    assert "gen_ai.client.operation.duration" not in recorded.metrics()


def test_a_forked_child_does_not_record_the_streams_its_parent_abandoned(recorded, client):
    from otel_rl.telemetry import lifecycle

    client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}], stream=True)
    gc.collect()
    lifecycle.run_after_fork_callbacks()
    dropped_answers.record_abandoned()
    assert recorded.spans == []
