"""The history of a conversation is recorded once: a call has the messages that no call before it in its rollout has."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from opentelemetry import context as context_api
from opentelemetry.trace import format_span_id

import otel_rl
from otel_rl.inference import histories
from otel_rl.report.core.messages import messages_of
from otel_rl.report.subjects.trajectories.conversations import of_spans
from otel_rl.semconv import attributes as names

SYSTEM = {"role": "system", "content": "be brief"}
ANSWER = {"role": "assistant", "content": '{"x": 1}'}
pytestmark = pytest.mark.usefixtures("content")


@pytest.fixture
def content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ask(client: openai.OpenAI, *messages: dict[str, Any]) -> None:
    client.chat.completions.create(model="tiny", messages=list(messages))  # type: ignore[arg-type]


def calls(recorded: Any) -> list[Any]:
    return [span for span in recorded.spans if span.name.startswith("chat")]


def inputs(span: Any) -> list[str]:
    """Texts of the input messages that a span has."""
    said = json.loads(span.attributes.get(names.GEN_AI_INPUT_MESSAGES, "[]"))
    return [part["content"] for message in said for part in message["parts"]]


def before(span: Any) -> tuple[int | None, str | None]:
    return (
        span.attributes.get(names.RL_INFERENCE_EARLIER_MESSAGES),
        span.attributes.get(names.RL_INFERENCE_EARLIER_SPAN_ID),
    )


def identity(span: Any) -> str:
    return format_span_id(span.context.span_id)


def conversation(spans: list[Any]) -> list[str]:
    """Texts that readers show of these spans, one after the other."""
    read = (
        SimpleNamespace(
            start=span.start_time,
            end=span.end_time,
            span_id=identity(span),
            parent_id=format_span_id(span.parent.span_id),
            scope=span.instrumentation_scope.name,
            attributes=dict(span.attributes),
        )
        for span in spans
    )
    return [message.text for message in of_spans(read)]  # type: ignore[arg-type]


def test_a_turn_has_what_came_since_the_turn_before_and_readers_show_all(client, recorded) -> None:
    with otel_rl.rollout():
        ask(client, SYSTEM, user("one"))
        ask(client, SYSTEM, user("one"), ANSWER, user("two"))
        ask(client, SYSTEM, user("one"), ANSWER, user("two"), ANSWER, user("three"))

    first, second, third = calls(recorded)
    assert [inputs(span) for span in (first, second, third)] == [
        ["be brief", "one"],
        ['{"x": 1}', "two"],
        ['{"x": 1}', "three"],
    ]
    assert [before(span) for span in (first, second, third)] == [
        (None, None),
        (2, identity(first)),
        (4, identity(second)),
    ]
    answer = '{"x": 1}'
    assert conversation([first, second, third]) == ["be brief", "one", answer, "two", answer, "three", answer]
    # Of one call alone its number is said, and of a span that is missing.
    assert messages_of(third.attributes)[0].text == "[4 earlier messages: recorded with a call before this one]"
    assert conversation([third])[0] == "[4 earlier messages: their span is not here]"


def test_readers_say_how_many_messages_a_limit_of_the_sdk_has_cut_off(client, recorded) -> None:
    with otel_rl.rollout():
        ask(client, SYSTEM, user("one"))
        ask(client, SYSTEM, user("one"), ANSWER, user("two"))
        ask(client, SYSTEM, user("one"), ANSWER, user("two"), ANSWER, user("three"))

    answer, said = '{"x": 1}', "[2 earlier messages: cut off in their span]"
    cut = "[cut off: of these messages the first 40 characters are recorded, see docs/content.md]"
    first, second, third = calls(recorded)
    # As OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT does.
    whole = first.attributes[names.GEN_AI_INPUT_MESSAGES]
    first._attributes = {**first.attributes, names.GEN_AI_INPUT_MESSAGES: whole[:40]}
    assert conversation([first, second, third]) == [cut, answer, said, "two", answer, "three", answer]


def test_messages_that_are_left_out_of_a_long_history_are_not_said_twice(client, recorded) -> None:
    many = [user(f"number {number}") for number in range(300)]
    with otel_rl.rollout():
        ask(client, *many)
        ask(client, *many, user("last"))

    notes = [text for text in conversation(calls(recorded)) if text.startswith("[")]
    assert len(notes) == 1
    assert notes[0].startswith("[omitted]")


def test_a_history_that_was_rewritten_is_recorded_whole(client, recorded) -> None:
    with otel_rl.rollout():
        ask(client, SYSTEM, user("one"))
        ask(client, user("a summary"), user("two"))
        ask(client, user("a summary"), user("two"), ANSWER, user("three"))
        ask(client, SYSTEM)

    spans = calls(recorded)
    assert [inputs(span) for span in spans] == [
        ["be brief", "one"],
        ["a summary", "two"],
        ['{"x": 1}', "three"],
        ["be brief"],
    ]
    assert [before(span)[0] for span in spans] == [None, None, 2, None]
    # Behind a rewritten history readers show what was not said before, and each answer.
    answer = '{"x": 1}'
    assert conversation(spans) == ["be brief", "one", answer, "a summary", "two", answer, "three", answer, answer]


def test_a_history_whose_empty_text_became_none_is_the_same_one(client, recorded) -> None:
    called = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add"}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "3"}
    with otel_rl.rollout():
        ask(client, SYSTEM, {**called, "content": ""}, result)
        ask(client, SYSTEM, {**called, "content": None}, result, user("two"))

    first, second = calls(recorded)
    assert before(second) == (3, identity(first))
    assert inputs(second) == ["two"]


def test_branches_of_a_conversation_have_what_they_share_from_one_span(client, recorded) -> None:
    with otel_rl.rollout():
        ask(client, SYSTEM, user("one"))
        ask(client, SYSTEM, user("one"))
        ask(client, SYSTEM, user("one"), user("left"))
        ask(client, SYSTEM, user("one"), user("right"))

    spans = calls(recorded)
    assert [inputs(span) for span in spans] == [["be brief", "one"], [], ["left"], ["right"]]
    assert {before(span) for span in spans[1:]} == {(2, identity(spans[0]))}


def test_calls_at_the_same_time_each_have_what_none_before_them_has(client, recorded) -> None:
    both = threading.Barrier(2)
    with otel_rl.rollout():
        context = context_api.get_current()

        def asked() -> None:
            context_api.attach(context)
            both.wait()
            ask(client, SYSTEM, user("one"))

        threads = [threading.Thread(target=asked) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ask(client, SYSTEM, user("one"), user("two"))

    *first, last = calls(recorded)
    assert ["be brief", "one"] in [inputs(span) for span in first]
    for span in first:
        assert inputs(span) == (["be brief", "one"] if before(span)[0] is None else [])
    assert inputs(last) == ["two"]
    assert before(last)[1] in {identity(span) for span in first if before(span)[0] is None}


def test_each_rollout_and_a_call_outside_has_its_history(client, recorded) -> None:
    for _ in range(2):
        with otel_rl.rollout():
            ask(client, SYSTEM, user("one"))
    ask(client, SYSTEM, user("one"))
    ask(client, SYSTEM, user("one"))

    assert [inputs(span) for span in calls(recorded)] == [["be brief", "one"]] * 4


def test_a_call_that_fails_has_recorded_what_it_was_sent_with(client, recorded) -> None:
    with otel_rl.rollout():
        with pytest.raises(openai.APIConnectionError):
            ask(client.with_options(base_url="http://127.0.0.1:9", max_retries=0), SYSTEM, user("one"))
        ask(client, SYSTEM, user("one"), user("two"))

    first, second = calls(recorded)
    assert (inputs(first), inputs(second)) == (["be brief", "one"], ["two"])
    assert before(second) == (2, identity(first))


def test_what_redaction_kept_from_being_recorded_is_not_left_out(client, recorded, monkeypatch) -> None:
    from otel_rl.telemetry import redaction

    withheld = [True]

    def text(value: str, *_: Any) -> str:
        if withheld:
            raise redaction.Dropped("redaction_withheld")
        return value

    with otel_rl.rollout():
        monkeypatch.setattr("otel_rl.inference.shortening.content", text)
        ask(client, SYSTEM, user("one"))
        monkeypatch.undo()
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
        ask(client, SYSTEM, user("one"), user("two"))

    first, second = calls(recorded)
    assert (inputs(first), inputs(second)) == ([], ["be brief", "one", "two"])


def test_events_have_the_whole_history(client, recorded, monkeypatch) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_AND_EVENT")
    with otel_rl.rollout():
        ask(client, SYSTEM, user("one"))
        ask(client, SYSTEM, user("one"), user("two"))

    assert inputs(calls(recorded)[1]) == ["be brief", "one", "two"]


def test_memory_is_bounded_by_the_number_of_histories(client, recorded, monkeypatch) -> None:
    monkeypatch.setattr(histories, "MOST", 3)
    with otel_rl.rollout():
        for number in range(6):
            ask(client, user(f"branch {number}"))
        ask(client, user("branch 5"), user("more"))
        ask(client, user("branch 0"), user("more"))

    spans = calls(recorded)
    assert (inputs(spans[-2]), inputs(spans[-1])) == (["more"], ["branch 0", "more"])


def test_long_texts_that_are_sent_again_are_known_without_being_encoded_anew(client, recorded, monkeypatch) -> None:
    encoded: list[str] = []

    def dumps(value: Any) -> str:
        encoded.append(json.dumps(value))
        return encoded[-1]

    monkeypatch.setattr(histories, "json", SimpleNamespace(dumps=dumps))
    long = "word " * 10_000
    with otel_rl.rollout():
        ask(client, SYSTEM, user(long))
        ask(client, SYSTEM, user(long), user("two"))

    assert inputs(calls(recorded)[1]) == ["two"]
    assert encoded
    assert max(map(len, encoded)) < histories.LONG


@pytest.mark.parametrize("place", [0, 25_000, 49_999])
def test_a_long_text_that_is_another_in_one_character_is_another(client, recorded, place: int) -> None:
    long = "word " * 10_000
    other = f"{long[:place]}-{long[place + 1 :]}"
    with otel_rl.rollout():
        ask(client, SYSTEM, user(long))
        ask(client, SYSTEM, user(other))

        ask(client, SYSTEM, user(other), user("two"))

    assert [before(span)[0] for span in calls(recorded)] == [None, None, 2]
