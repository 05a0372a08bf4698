"""Tinker's own client, from its public methods down to HTTP: calls, parts, steps and versions of weights."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("tinker")

from tinker import types

import otel_rl
from otel_rl.telemetry import deferral

PROMPT = types.ModelInput.from_ints([1, 2, 3])
PARAMETERS = types.SamplingParams(max_tokens=2, temperature=0.5)
DATA = [types.Datum(model_input=PROMPT, loss_fn_inputs={"target_tokens": [2, 3, 4], "weights": [1.0, 1.0, 1.0]})]


def _finished(made):
    return made.result() if hasattr(made, "result") else made


def _update(trained):
    gradients = trained.forward_backward(DATA, "cross_entropy")
    update = trained.optim_step(types.AdamParams(learning_rate=0.25))
    gradients.result()
    update.result()
    _settle(trained)


def _settle(trained):
    """What was called when a future was done is over once its loop has made another round."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), trained.holder.get_loop()).result()
    deferral.drain_all()


def _named(recorded, name):
    return [span for span in recorded.spans if span.name == name]


def test_each_update_is_a_step_with_its_parts_and_learning_rate(recorded, trained):
    for _ in range(3):
        _update(trained)
    assert [span.attributes["rl.loop.iteration"] for span in _named(recorded, "rl.loop")] == [1, 2, 3]
    assert len(_named(recorded, "rl.backward")) == len(_named(recorded, "rl.optimizer")) == 3
    assert [event.body["learning_rate"] for event in recorded.events("rl.step")] == [0.25] * 3


def test_a_sample_is_a_model_call_with_its_tokens_and_the_version_of_the_weights(recorded, trained):
    _update(trained)
    sampler = _finished(trained.save_weights_and_get_sampling_client())
    answer = sampler.sample(PROMPT, 2, PARAMETERS).result()
    _settle(trained)
    assert [sequence.tokens for sequence in answer.sequences] == [[7, 8], [7, 8]]
    (call,) = _named(recorded, "text_completion Qwen/Qwen3-8B")
    assert call.attributes["gen_ai.usage.input_tokens"] == 3
    assert call.attributes["gen_ai.usage.output_tokens"] == 4
    assert call.attributes["gen_ai.response.finish_reasons"] == ("length", "length")
    assert call.attributes["server.address"] == "127.0.0.1"
    assert call.attributes["rl.inference.weight_version"] == "1"


def test_a_client_of_a_saved_path_asks_the_version_that_was_saved_there(recorded, client, trained):
    _update(trained)
    path = trained.save_weights_for_sampler(name="first").result().path
    _update(trained)
    _finished(client.create_sampling_client(model_path=path)).sample(PROMPT, 2, PARAMETERS).result()
    _settle(trained)
    (call,) = _named(recorded, "text_completion Qwen/Qwen3-8B")
    assert call.attributes["rl.inference.weight_version"] == "1"


def test_asynchronous_twins_are_followed_in_the_step_of_the_program(recorded, trained):
    async def loop():
        sampler = await trained.save_weights_and_get_sampling_client_async()
        await sampler.sample_async(PROMPT, 2, PARAMETERS)
        gradients = await trained.forward_backward_async(DATA, "cross_entropy")
        update = await trained.optim_step_async(types.AdamParams(learning_rate=0.25))
        await gradients
        await update
        await (await trained.save_state_async("state"))

    with otel_rl.step(7):
        asyncio.run(loop())
        _settle(trained)
    deferral.drain_all()
    assert [span.attributes["rl.loop.iteration"] for span in _named(recorded, "rl.loop")] == [7]
    parts = {span.attributes["rl.phase"] for span in recorded.spans if "rl.phase" in span.attributes}
    assert {"sync", "backward", "optimizer", "checkpoint"} <= parts
    assert len(_named(recorded, "text_completion Qwen/Qwen3-8B")) == 1


def test_the_client_warns_of_nothing_that_we_do(recorded, trained, recwarn):
    sampler = _finished(trained.save_weights_and_get_sampling_client())
    recwarn.clear()
    sampler.sample(PROMPT, 2, PARAMETERS).result()
    _update(trained)
    assert [str(one.message) for one in recwarn if issubclass(one.category, FutureWarning)] == []


def test_the_client_asks_the_service_no_more_than_without_us(service, trained):
    _update(trained)
    asked = [one for one in service.asked if one not in ("retrieve_future", "telemetry", "session_heartbeat")]
    assert asked[-2:] == ["forward_backward", "optim_step"]
    assert asked.count("create_session") == asked.count("create_model") == 1
