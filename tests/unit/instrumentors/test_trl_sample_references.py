"""A batch of TRL's keeps nothing of the program until its step ends."""

from __future__ import annotations

import gc
import types
import weakref

import otel_rl
from otel_rl.instrumentors.trl.samples import samples
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE


class Image:
    """In a prompt of several kinds."""


def test_prompts_are_recorded_at_once_and_not_kept_for_the_end_of_the_step(recorded, monkeypatch):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "EVENT_ONLY")
    trainer = types.SimpleNamespace(
        reward_func_names=["f"],
        args=types.SimpleNamespace(reward_weights=[1.0]),
        state=types.SimpleNamespace(global_step=1),
        accelerator=types.SimpleNamespace(process_index=0, num_processes=1),
        num_generations=1,
        eos_token_id=2,
        scale_rewards="group",
    )
    image = Image()
    reference = weakref.ref(image)
    prompts = [[{"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": "?"}]}]]
    completions = [[{"role": "assistant", "content": "a cat"}]]
    with otel_rl.step(1):
        samples.sampled(trainer, ([[1]], [[2]], None, completions, 0, 0, 0), prompts)
        samples.scored(trainer, {}, {"f": [1.0]})
        del image, prompts, completions
        gc.collect()
        assert reference() is None
    [event] = recorded.events("rl.trajectory.content")
    assert "a cat" in event.attributes["gen_ai.output.messages"]
    [record] = recorded.events("rl.trajectories")
    assert record.body["rl.rollout.reward"] == [1.0]
