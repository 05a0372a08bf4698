"""``OTEL_RL_REDACT``: the user's function sees content whole, and what it cannot clear is dropped and counted."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

from otel_rl.core import settings
from otel_rl.inference import messages
from otel_rl.inference.answers import Answer
from otel_rl.process import process_identity
from otel_rl.telemetry import drops, redaction
from otel_rl.telemetry.attribute_values import MAXIMUM_LENGTH
from otel_rl.telemetry.content_capture import content_as_json


@pytest.fixture
def use(monkeypatch):
    """Set the variable to ``function`` of a module that can be imported, or to the text given."""

    def use(function, environment_value="their_privacy:redact"):
        module = ModuleType("their_privacy")
        module.redact = function
        monkeypatch.setitem(sys.modules, "their_privacy", module)
        monkeypatch.setattr(redaction, "_functions", {})
        monkeypatch.setattr(redaction, "_reported", set())
        monkeypatch.setenv("OTEL_RL_REDACT", environment_value)
        settings.reset()
        drops.reset()

    yield use
    monkeypatch.undo()
    settings.reset()


def test_without_the_variable_content_is_recorded_as_it_is():
    assert json.loads(content_as_json({"q": "secret", "n": 1})) == {"q": "secret", "n": 1}


def test_every_text_of_the_content_is_passed_whole_before_it_is_cut(use):
    seen = []

    def redact(text):
        seen.append(text)
        return text.replace("secret", "***")

    use(redact)
    long = "x" * (MAXIMUM_LENGTH - 3) + "secret"
    kept = content_as_json([{"role": "user", "parts": [{"type": "text", "content": long}]}, {"deep": ["secret", 7]}])
    assert "sec" not in kept
    assert long in seen
    assert json.loads(kept)[0]["role"] == "user"


def test_numbers_are_passed_too_and_stay_numbers_where_nothing_was_changed(use):
    use(lambda text: text.replace("4111111111111111", "[card]"))
    found = json.loads(content_as_json({"card": 4111111111111111, "amount": 12.5, "count": 3, "yes": True}))
    assert found == {"card": "[card]", "amount": 12.5, "count": 3, "yes": True}


def test_keys_of_dictionaries_are_passed_whole_whatever_their_type(use):
    use(lambda text: text.replace("s3cret", "***").replace("4111", "[card]"))
    long = "x" * (MAXIMUM_LENGTH - 3) + "s3cret"
    keys = ["mail of s3cret", long, b"s3cret", ("a", "s3cret"), 4111, frozenset({"s3cret"})]
    kept = content_as_json({"users": [{"deep": dict.fromkeys(keys, 1)}]})
    assert "s3c" not in kept
    assert "4111" not in kept
    names = list(json.loads(kept)["users"][0]["deep"])
    assert (names[0], *names[2:]) == ("mail of ***", "***", "['a', '***']", "[card]", "['***']")


def test_a_secret_key_of_the_arguments_that_a_model_wrote_is_passed(use):
    use(lambda text: text.replace("s3cret", "***"))
    answer = Answer(captures=True)
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"by": {"s3cret": 1}}'}}
    answer.observe_chunk({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    assert '{"by": {"***": 1}}' in answer.output_messages()


def test_keys_that_become_one_keep_their_values(use):
    use(lambda text: "[hidden]")
    assert json.loads(content_as_json({"a": True, "b": False, "c": None})) == {
        "[hidden]": True,
        "[hidden] (2)": False,
        "[hidden] (3)": None,
    }


def test_a_key_that_the_function_does_not_let_pass_costs_the_content(use):
    use(lambda text: None if text == "s3cret" else text)
    assert content_as_json({"s3cret": 1}) is None
    assert drops.snapshot() == {("traces", "redaction_withheld"): 1}


def test_bytes_are_passed_whole(use):
    use(lambda text: text.replace("secret", "***"))
    kept = json.loads(content_as_json(b"x" * (MAXIMUM_LENGTH - 3) + b"secret"))
    assert "sec" not in kept


def test_words_of_the_message_schema_are_not_passed_so_that_the_content_stays_valid(use):
    use(lambda text: "[hidden]")
    message = {"role": "assistant", "parts": [{"type": "text", "content": "x"}], "finish_reason": "stop"}
    assert json.loads(content_as_json([message])) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "[hidden]"}], "finish_reason": "stop"}
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;,x"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
        {"input": [{"type": "web_search_call", "id": "i", "action": {"query": "x"}}], "instructions": "be brief"},
        {"tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "x"}}}]},
    ],
)
def test_names_of_fields_stay_when_the_function_hides_everything(use, body):
    plain = messages.of_request(body)
    use(lambda text: "[hidden]")
    hidden = messages.of_request(body)
    for name, content in plain.items():
        fields = [sorted(each) for each in json.loads(content)]
        assert [sorted(each) for each in json.loads(hidden[name])] == fields
        parts = [[sorted(part) for part in each.get("parts", ())] for each in json.loads(content)]
        assert [[sorted(part) for part in each.get("parts", ())] for each in json.loads(hidden[name])] == parts


async def _coroutine(text):
    return text


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda text: 1 / 0, "redaction_failed"),
        (lambda text: b"bytes", "redaction_failed"),
        (lambda text: None, "redaction_withheld"),
        (lambda text: content_as_json(text) or "nothing came out", None),
        (_coroutine, "redaction_unavailable"),
        ("no function", "redaction_unavailable"),
    ],
)
def test_a_function_that_fails_costs_the_content_and_is_counted(use, capsys, function, reason):
    use(function)
    kept = content_as_json(["secret"])
    if reason is None:
        assert "secret" not in kept
        reason = "redaction_recursion"
    else:
        assert kept is None
    assert drops.snapshot() == {("traces", reason): 1}
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "value", ["their_privacy", "their_privacy:", ":redact", "their privacy:redact", "missing:redact"]
)
def test_a_function_that_cannot_be_found_is_one_line_and_nothing_is_recorded(use, capsys, value):
    use(lambda text: text, value)
    assert content_as_json("secret") is None
    assert content_as_json("secret") is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f'otel-rl: OTEL_RL_REDACT="{value}" cannot be used (')
    assert "content and exception text are dropped" in line
    assert drops.snapshot() == {("traces", "redaction_unavailable"): 2}


def test_only_the_first_rank_of_a_node_says_that_the_function_cannot_be_used(use, capsys, monkeypatch):
    use(lambda text: text, "missing:redact")
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(rank=3, local_rank=1))
    assert content_as_json("secret") is None
    assert capsys.readouterr().err == ""


def test_an_interrupt_inside_the_function_is_the_programs(use):
    def redact(text):
        raise KeyboardInterrupt

    use(redact)
    with pytest.raises(KeyboardInterrupt):
        content_as_json("secret")


def test_a_method_of_a_class_can_be_named(use):
    class Privacy:
        @staticmethod
        def hide(text):
            return "hidden"

    use(Privacy, "their_privacy:redact.hide")
    assert content_as_json("secret") == '"hidden"'


@pytest.mark.parametrize("kind", ["content", "tool_calls"])
def test_a_secret_across_the_cut_of_a_stream_is_seen_whole(use, kind):
    use(lambda text: text.replace("s3cret", "***"))
    answer = Answer(captures=True)
    for _ in range(2000):
        call = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "s3cret "}}]
        answer.observe_chunk({"choices": [{"index": 0, "delta": {kind: "s3cret " if kind == "content" else call}}]})
    kept = answer.output_messages()

    assert kept is not None
    assert "*** ***" in kept
    assert "s3" not in kept
    assert len(kept) <= MAXIMUM_LENGTH


def test_without_a_function_a_stream_keeps_no_more_than_fits():
    answer = Answer(captures=True)
    for _ in range(100):
        answer.observe_chunk({"choices": [{"index": 0, "delta": {"content": "x" * 1000}}]})

    (message,) = answer._content.messages()
    assert len(message["parts"][0]["content"]) <= MAXIMUM_LENGTH
