"""How much of what was said an attribute holds is the user's to say."""

from __future__ import annotations

import json

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider

from otel_rl.core import settings
from otel_rl.inference.shortening import messages_as_json
from otel_rl.pipeline.processors import mark_truncation, sdk_length_limit
from otel_rl.telemetry import attribute_values
from otel_rl.telemetry.content_capture import content_as_json

LONG = [{"role": "user", "parts": [{"type": "text", "content": "x" * 50_000}]}]


@pytest.fixture
def length(monkeypatch):
    def set_to(characters):
        monkeypatch.setenv("OTEL_RL_CONTENT_LENGTH", str(characters))
        settings.reset()

    yield set_to
    monkeypatch.undo()
    settings.reset()


@pytest.mark.parametrize("characters", [256, 1000, 8192, 30_000, 65_536])
def test_messages_and_values_have_so_many_characters_at_most(length, characters):
    length(characters)
    for encoded in (messages_as_json(LONG), content_as_json({"text": "y" * 50_000})):
        assert len(encoded) <= characters
        assert len(encoded) > min(characters, 50_000) / 3
        json.loads(encoded)


def test_a_long_content_leaves_whole_and_no_other_attribute_is_longer_for_it(length):
    length(40_000)
    said = "z" * 30_000
    cleaned = attribute_values.clean({"gen_ai.input.messages": said, "rl.rollout.output": said, "other": said})
    assert cleaned["gen_ai.input.messages"] == cleaned["rl.rollout.output"] == said
    assert len(cleaned["other"]) == attribute_values.MAXIMUM_LENGTH
    provider = TracerProvider(span_limits=SpanLimits(max_attribute_length=sdk_length_limit()), shutdown_on_exit=False)
    span = provider.get_tracer("a program").start_span("s", attributes={"gen_ai.input.messages": said, "own": said})
    span.end()
    mark_truncation(span)
    assert span.attributes["gen_ai.input.messages"] == said
    assert len(span.attributes["own"]) == attribute_values.MAXIMUM_LENGTH


def test_what_is_no_length_is_refused(length):
    for wrong in ("0", "255", "65537", "many"):
        length(wrong)
        assert settings.current().content_length == 8192
        assert "OTEL_RL_CONTENT_LENGTH" in settings.take_complaints()[0]
