"""Events of a stream, however the bytes are cut; bounded memory whatever a server sends."""

from __future__ import annotations

import json
import sys

import pytest

from otel_rl.inference.http.event_streams import LONGEST, LONGEST_LINE, EventStream
from otel_rl.inference.http.streamed_answers import StreamedEngineAnswer

STREAM = b': hello\r\n\r\ndata: {"a": 1}\r\n\r\nevent: x\nid: 7\ndata:{"b": "\xc3\xa4"}\n\nretry: 3\n\ndata: [DONE]\n\n'
EVENTS = [b'{"a": 1}', b'{"b": "\xc3\xa4"}', b"[DONE]"]


def events_of(chunks):
    found = []
    stream = EventStream(found.append)
    for chunk in chunks:
        stream.feed(chunk)
    return found, stream.end()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, len(STREAM)])
@pytest.mark.parametrize("beginning", [b"", b"\xef\xbb\xbf", b"\n\n", b"\xef\xbb\xbf\r\n"])
def test_events_are_the_same_however_the_bytes_are_cut(size, beginning):
    whole = beginning + STREAM
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)]

    assert events_of(chunks) == (EVENTS, None)


def test_the_last_event_counts_without_the_end_of_its_line():
    assert events_of([b'data: {"a": 1}\n\ndata: {"b"', b": 2}"]) == ([b'{"a": 1}', b'{"b": 2}'], None)


@pytest.mark.parametrize("body", [b'{"text": "data: no"}', b"d", b"[1]", b"\x1f\x8b\x08garbage\n\n"])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_what_is_no_stream_of_events_is_one_body(body, size):
    chunks = [body[start : start + size] for start in range(0, len(body), size)]

    assert events_of(chunks) == ([], body)


@pytest.mark.parametrize("beginning", [b"data: ", b"{", b"\n", b":"])
@pytest.mark.bad_input("stream that never ends")
def test_what_never_ends_is_not_kept(beginning):
    stream = EventStream(lambda _: None)
    stream.feed(beginning)
    for _ in range(200):
        stream.feed(b"x" * 65_536)
        assert sys.getsizeof(stream._kept) < 1.5 * (LONGEST if beginning in b"{" else LONGEST_LINE)
    assert sys.getsizeof(stream._kept) < 1000

    assert stream.end() is None


def cut(text, size):
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize("size", [3, 65_536, 2 * LONGEST_LINE])
@pytest.mark.parametrize("field", [b"data:", b": "])
def test_a_line_that_is_too_long_is_told_and_the_next_ones_count(size, field):
    whole = b'data: {"a": 1}\n\n' + field + b"x" * LONGEST_LINE + b'\n\ndata: {"b": 2}\n\n'
    # Nothing begins or ends in the middle, which need not be cut as finely.
    chunks = [*cut(whole[:90], size), *cut(whole[90:-90], max(size, 999)), *cut(whole[-90:], size)]

    told = [b""] if field == b"data:" else []
    assert events_of(chunks) == ([b'{"a": 1}', *told, b'{"b": 2}'], None)


def test_a_line_that_is_too_long_at_the_end_is_told():
    assert events_of([b"da", b"ta: ", b"x" * LONGEST_LINE, b"y"]) == ([b""], None)


def state(tokens, reason=None, **more):
    meta = {"id": "1", "finish_reason": reason, "prompt_tokens": 7, "completion_tokens": tokens, **more}
    return json.dumps({"text": "a", "meta_info": meta}).encode()


def answer_of(events, samples=1):
    answer = StreamedEngineAnswer(samples)
    for event in events:
        answer.observe_chunk(event)
    answer.end()
    return answer


def test_a_state_of_sglang_before_one_that_was_too_long_is_not_the_result():
    answer = answer_of([state(4000, reasoning_tokens=9), state(7000, reasoning_tokens=9), b"", b"[DONE]"])

    assert answer.input_tokens == 7
    assert (answer.exact_output_tokens(), answer.reasoning_tokens) == (None, None)
    assert "rl.inference.output_tokens.estimated" not in answer.server_attributes()
    assert answer.is_complete


def test_samples_of_sglang_of_which_one_was_too_long_have_no_sum():
    answer = answer_of([state(3, {"type": "stop"}), b"", b"[DONE]"], samples=2)

    assert answer.exact_output_tokens() is None


def chat(usage=None, **choice):
    event = {"id": "1", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None, **choice}]}
    return json.dumps(event if usage is None else {**event, "usage": usage}).encode()


def test_a_usage_after_an_event_that_was_too_long_counts_and_one_before_it_does_not():
    before, after = ({"prompt_tokens": 7, "completion_tokens": count} for count in (3, 5))

    assert answer_of([chat(before), chat(before), b"", chat(), b"[DONE]"]).exact_output_tokens() is None
    assert answer_of([chat(before), b"", chat(after), b"[DONE]"]).exact_output_tokens() == 5


def test_ids_of_tokens_beside_an_event_that_was_too_long_are_no_number_of_tokens():
    assert answer_of([chat(token_ids=[1, 2]), chat(token_ids=[3])]).exact_output_tokens() == 3
    assert answer_of([chat(token_ids=[1, 2]), b"", chat(token_ids=[3])]).exact_output_tokens() is None


def test_an_error_between_the_states_of_sglang_fails_the_answer_and_leaves_its_tokens():
    error = b'{"error": {"message": "aborted", "type": "BadRequest"}}'
    answer = answer_of([state(1), state(2), error, b"[DONE]"])

    assert answer.failure == "BadRequest"
    assert answer.exact_output_tokens() == 2


def test_of_a_finished_sample_no_lists_are_kept():
    answer = StreamedEngineAnswer(1)
    answer.observe_chunk(state(2, {"type": "stop"}, output_token_logprobs=[[-0.5, 1, None]] * 1000))

    assert len(str(answer._finished)) < 300


def test_few_events_of_a_long_stream_are_parsed(monkeypatch):
    parsed = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda given: parsed.append(given) or loads(given))
    answer = StreamedEngineAnswer(1)
    for number in range(1000):
        meta = {"id": "1", "finish_reason": None, "completion_tokens": number}
        answer.observe_chunk(json.dumps({"text": "x" * number, "meta_info": meta}).encode())
    answer.end()

    assert len(parsed) == 1
    assert answer.exact_output_tokens() == 999


def test_text_that_looks_like_facts_is_text():
    answer = StreamedEngineAnswer(1)
    text = '{"finish_reason": "stop", "usage": {"completion_tokens": 9}}'
    for _ in range(3):
        chunk = {"id": "1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        answer.observe_chunk(json.dumps(chunk).encode())
    answer.end()

    assert answer.finish_reasons is None
    assert answer.exact_output_tokens() is None
    assert answer.output_chunks == 3
