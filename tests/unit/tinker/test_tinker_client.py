"""Tinker's client: model calls, operations as parts of a step, steps by `optim_step`, parents of its requests."""

from __future__ import annotations

import asyncio
import gc
import weakref
from types import SimpleNamespace

import pytest
import tinker_stand_in as stand_in

import otel_rl
from otel_rl.instrumentors.tinker.clients import own_steps
from otel_rl.telemetry import deferral

PROMPT, PARAMETERS = SimpleNamespace(length=3), SimpleNamespace(max_tokens=2, temperature=0.5, top_k=-1)


def _update(trained):
    gradients = trained.forward_backward([], "cross_entropy")
    update = trained.optim_step(SimpleNamespace(learning_rate=0.25))
    gradients.result()
    update.result()
    _settle(trained)


def _settle(trained):
    """What was called when a future was done is over once its loop has made another round."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), trained.holder.loop).result()
    deferral.drain_all()


def _steps(recorded):
    return [span for span in recorded.spans if span.name == "rl.loop"]


def _calls(recorded):
    return [span for span in recorded.spans if span.name.startswith("text_completion")]


def test_a_sample_is_a_model_call_until_its_future_is_done(recorded, trained):
    sampler = trained.save_weights_and_get_sampling_client()
    answer = sampler.sample(PROMPT, 2, sampling_params=PARAMETERS).result()
    _settle(trained)
    assert [sequence.tokens for sequence in answer.sequences] == [[1, 2], [1, 2]]
    (call,) = _calls(recorded)
    assert call.name == "text_completion Qwen/Qwen3-8B"
    assert call.attributes["gen_ai.usage.input_tokens"] == 3
    assert call.attributes["gen_ai.usage.output_tokens"] == 4
    assert call.attributes["gen_ai.response.finish_reasons"] == ("length", "length")
    assert call.attributes["gen_ai.request.temperature"] == 0.5
    assert call.attributes["server.port"] == 8123
    assert call.attributes["rl.inference.weight_version"] == "0"


def test_a_sample_that_fails_fails_for_the_program_and_in_its_span(recorded, trained, monkeypatch):
    error = ValueError("of the service")
    sampler = trained.save_weights_and_get_sampling_client()
    monkeypatch.setattr(sampler, "error", error, raising=False)
    with pytest.raises(ValueError, match="of the service") as raised:
        sampler.sample(PROMPT, 1, PARAMETERS).result()
    _settle(trained)
    assert raised.value is error
    assert _calls(recorded)[0].attributes["error.type"] == "ValueError"


def test_an_update_ends_a_step_of_a_loop_that_nobody_reports(recorded, trained):
    for _ in range(3):
        _update(trained)
    assert [span.attributes["rl.loop.iteration"] for span in _steps(recorded)] == [1, 2, 3]
    assert {span.attributes["rl.loop.source"] for span in _steps(recorded)} == {"known"}
    assert [event.body["learning_rate"] for event in recorded.events("rl.step")] == [0.25] * 3


def test_what_is_asked_of_the_service_are_the_parts_of_the_step(recorded, trained):
    sampler = trained.save_weights_and_get_sampling_client()
    sampler.sample(PROMPT, 1, PARAMETERS).result()
    trained.forward([], "cross_entropy").result()
    trained._load_state_impl("tinker://before", optimizer=True, weights_access_token=None).result()
    trained.save_state("name").result()
    _update(trained)
    parts = {span.attributes["rl.phase"] for span in recorded.spans if "rl.phase" in span.attributes}
    assert parts == {"sync", "sample", "forward", "load", "checkpoint", "backward", "optimizer"}


def test_gradients_that_are_answered_after_the_update_belong_to_its_step_and_end_before_it(recorded, trained):
    answered = asyncio.run_coroutine_threadsafe(_event(), trained.holder.loop).result()
    trained.gradients_after = answered.wait()
    gradients, update = trained.forward_backward([], "x"), trained.optim_step(SimpleNamespace(learning_rate=1.0))
    update.result()
    trained.holder.loop.call_soon_threadsafe(answered.set)
    gradients.result()
    _settle(trained)
    assert len(_steps(recorded)) == 1
    backward, optimizer = recorded.span("rl.backward"), recorded.span("rl.optimizer")
    assert backward.end_time <= optimizer.start_time
    assert optimizer.end_time == recorded.span("rl.rank.step").end_time


async def _event():
    return asyncio.Event()


def test_weights_that_are_saved_have_the_number_of_updates_as_their_version(recorded, service, trained):
    _update(trained)
    _update(trained)
    path = trained._save_weights_for_sampler_impl("here", None).result().path
    _settle(trained)
    sampler = stand_in.SamplingClient.create(service.holder, model_path=path).result()
    elsewhere = stand_in.SamplingClient.create(service.holder, model_path="tinker://elsewhere").result()
    for one in (sampler, elsewhere):
        one.sample(PROMPT, 1, PARAMETERS).result()
    _settle(trained)
    versions = [call.attributes["rl.inference.weight_version"] for call in _calls(recorded)]
    assert versions == ["2", "tinker://elsewhere"]


def test_a_request_lies_below_what_it_is_for(recorded, trained):
    with otel_rl.step(7), otel_rl.phase("train"):
        _update(trained)
    # No step is open, and none is expected of a program that marks its own.
    sampler = trained.save_weights_and_get_sampling_client()
    sampler.sample(PROMPT, 1, PARAMETERS).result()
    of = dict(stand_in.handled)
    assert of["forward_backward"] == of["optim_step"] == "rl.train"
    assert of["sample"] == "text_completion Qwen/Qwen3-8B"
    assert of["save_weights_for_sampler"] == stand_in.OF_RUN


def test_steps_of_the_program_win(recorded, trained):
    with otel_rl.step(7):
        _update(trained)
    deferral.drain_all()
    assert [span.attributes["rl.loop.iteration"] for span in _steps(recorded)] == [7]
    backward = recorded.span("rl.backward")
    assert backward.attributes["rl.loop.iteration"] == 7


def test_nothing_is_followed_any_more_once_the_instrumentor_is_gone(recorded, trained):
    trained.forward_backward([], "x").result()
    own_steps.stop()
    deferral.drain_all()
    assert _steps(recorded) == []


def test_the_answer_of_an_operation_is_freed_with_its_future(recorded, trained):
    gradients = trained.forward_backward([], "x")
    gradients.result()
    _settle(trained)
    future = weakref.ref(gradients.future())
    gc.disable()
    try:
        del gradients
        assert future() is None
    finally:
        gc.enable()
