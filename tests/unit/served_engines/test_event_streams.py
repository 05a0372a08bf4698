"""Events of a stream, however the bytes are cut; bounded memory whatever a server sends."""

from __future__ import annotations

import json
import sys

import pytest

from otel_rl.served_engines.event_streams import LONGEST, EventStream
from otel_rl.served_engines.streamed_answers import StreamedEngineAnswer

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
def test_what_never_ends_is_not_kept(beginning):
    stream = EventStream(lambda _: None)
    stream.feed(beginning)
    for _ in range(200):
        stream.feed(b"x" * 65_536)
        assert sum(map(sys.getsizeof, stream._pieces)) < 2 * LONGEST

    assert stream.end() is None


def test_after_a_line_that_is_too_long_the_next_ones_count():
    long = [b"data: {", *[b"x" * 65_536] * 8, b"}\n\n"]

    assert events_of([*long, b'data: {"b": 2}\n\n']) == ([b'{"b": 2}'], None)


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
