"""Requests that can be decoded and hold strange values: what is stored of them, and that memory stays bounded."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import shipped_settings
from bad_input import PROTOBUF, by_command, call, export, memory, message, neighbour, post
from collector_process import CollectorProcess, wait_for
from otlp import SECOND, attributes, span
from sampled_traces import own_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = 86_400 * SECOND
LARGEST = 2**64 - 1


@pytest.fixture(scope="module")
def collector(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    folder = tmp_path_factory.mktemp("bad-values")
    with by_command(otelcol_rl, folder, ["--role", "local"]) as running:
        yield running


def _stored(collector: CollectorProcess, name: str) -> dict[str, Any]:
    """Return the span of this name once it is written."""
    return wait_for(
        lambda: next((each for each in collector.spans() if each.get("name") == name), None), f"{name} is written"
    )


def _clock_cases(now: int) -> dict[str, tuple[int, int]]:
    return {
        "future": (now + 10 * 365 * DAY, now + 10 * 365 * DAY + SECOND),
        "past": (now - 50 * 365 * DAY, now - 50 * 365 * DAY + SECOND),
        "end-before-start": (now, now - 3600 * SECOND),
        "zero": (0, 0),
        "no-end": (now, 0),
        "largest": (LARGEST, LARGEST),
        "from-zero-to-largest": (0, LARGEST),
    }


def _skewed(now: int) -> list[dict[str, Any]]:
    return [
        {
            **span(name, trace_id=os.urandom(16).hex()),
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
            "events": [{"name": "event", "timeUnixNano": str(end)}],
        }
        for name, (start, end) in _clock_cases(now).items()
    ]


def test_times_of_a_wrong_clock_are_stored_as_they_came(collector: CollectorProcess):
    now = time.time_ns()
    assert post(collector, export(_skewed(now)))[0] == 200
    for name, (start, end) in _clock_cases(now).items():
        stored = _stored(collector, name)
        assert int(stored.get("startTimeUnixNano", 0)) == start
        assert int(stored.get("endTimeUnixNano", 0)) == end


def test_a_gateway_counts_and_keeps_spans_of_a_wrong_clock_beside_good_ones(otelcol_rl: Path, tmp_path: Path):
    now = time.time_ns()
    variables = {
        "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100",
        "OTEL_RL_COLLECTOR_DECISION_WAIT": "1s",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
        shipped_settings.SPAN_METRICS_INTERVAL: "1s",
    }
    with by_command(otelcol_rl, tmp_path, ["--role", "gateway", "--sink", "file"], **variables) as gateway:
        name, good = neighbour()
        assert post(gateway, good)[0] == 200
        assert post(gateway, export(_skewed(now)))[0] == 200
        for each in (name, *_clock_cases(now)):
            _stored(gateway, each)
        wait_for(lambda: set(_clock_cases(now)) <= _durations(gateway).keys(), "the span metrics are written")
        durations = _durations(gateway)
    assert all(seconds >= 0 for seconds in durations.values()), durations
    assert durations["end-before-start"] == 0
    assert durations["zero"] == 0


def _durations(gateway: CollectorProcess) -> dict[str, float]:
    """Return the sum of the durations by the name of the span."""
    return {
        attributes(point)["span.name"]: point.get("sum", 0.0)
        for metric in gateway.metrics()
        if metric["name"].endswith("duration")
        for point in metric.get("histogram", {}).get("dataPoints", [])
    }


@pytest.mark.parametrize(
    "changed",
    [{"traceId": "", "spanId": ""}, {"traceId": "0" * 32, "spanId": "0" * 16}, {"spanId": ""}],
    ids=["empty", "zeros", "no span id"],
)
def test_spans_without_ids_are_stored(collector: CollectorProcess, changed: dict[str, str]):
    name = f"without-ids-{os.urandom(4).hex()}"
    assert post(collector, export([{**span(name), **changed}]))[0] == 200
    assert not _stored(collector, name).get("spanId", "").strip("0")


def test_bytes_that_are_no_utf_8_are_replaced_so_that_every_line_stays_readable(collector: CollectorProcess):
    bad = b"caf\xff\xfe"
    text = message(1, b"note-\xff") + message(2, message(1, bad))
    built = message(1, os.urandom(16)) + message(2, os.urandom(8)) + message(5, b"not-utf8-" + bad) + message(9, text)
    body = message(1, message(2, message(1, message(1, b"scope-\xff")) + message(2, built)))
    assert post(collector, body, kind=PROTOBUF)[0] == 200
    stored = wait_for(
        lambda: next((each for each in collector.spans() if each.get("name", "").startswith("not-utf8-")), None),
        "the span is written",
    )
    assert stored["name"].startswith("not-utf8-caf\ufffd")
    ((key, value),) = attributes(stored).items()
    assert key.startswith("note-\ufffd")
    assert value.startswith("caf\ufffd")


def test_a_key_that_appears_twice_does_not_disturb(collector: CollectorProcess):
    twice = [{"key": "k", "value": {"stringValue": "first"}}, {"key": "k", "value": {"stringValue": "second"}}]
    assert post(collector, export([{**span("key-twice"), "attributes": twice}]))[0] == 200
    values = [pair["value"]["stringValue"] for pair in _stored(collector, "key-twice")["attributes"]]
    assert values in (["first", "second"], ["first"], ["second"])


def test_a_hundred_thousand_attributes_are_stored(collector: CollectorProcess):
    assert (
        post(collector, export([span("many-attributes", {f"k{number}": number for number in range(100_000)})]))[0]
        == 200
    )
    assert len(_stored(collector, "many-attributes")["attributes"]) == 100_000


def test_values_of_every_kind_and_none_are_stored(collector: CollectorProcess):
    empty = [{"key": "none", "value": {}}, {"key": "", "value": {"stringValue": "no key"}}]
    body = export([{**span("", {"list": [], "map": {}, "text": "", "number": 2**63 - 1})}])
    body = body.replace(
        b'"attributes": [{"key": "list"', b'"attributes": [' + json.dumps(empty)[1:-1].encode() + b', {"key": "list"'
    )
    assert post(collector, body)[0] == 200
    stored = wait_for(lambda: next((each for each in collector.spans() if not each.get("name")), None), "it is written")
    assert {"key": "number", "value": {"intValue": str(2**63 - 1)}} in stored["attributes"]


def test_what_comes_after_all_this_is_delivered(collector: CollectorProcess):
    name, body = neighbour()
    assert post(collector, body)[0] == 200
    _stored(collector, name)
    assert "panic" not in collector.log()


def test_while_memory_is_short_senders_are_told_to_try_again_and_nothing_is_decoded(start_collector):
    always_short = {"OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB": "2000", **shipped_settings.memory_spike("1999")}
    collector = start_collector("local.yaml", **always_short)
    # The limiter looks for the first time a second after the start.
    wait_for(lambda: post(collector, b"{}")[0] == 503, "memory is short")
    said = "the collector is short of memory; try again later"
    assert json.loads(post(collector, b"{}")[1])["message"] == said
    assert call(collector, b"") == ("UNAVAILABLE", said)
    (counted,) = own_metrics(collector)["otelcol_request_guard_refused_requests"].values()
    assert counted == 3


def test_a_flood_of_large_spans_is_pushed_back_before_memory_runs_out(otelcol_rl: Path, tmp_path: Path):
    limit = 200
    variables = {"OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB": str(limit), **shipped_settings.memory_spike("60")}
    large = export([span("large", {f"note-{number}": f"word {number} " * 20_000 for number in range(60)})])
    answers: list[int] = []
    with by_command(otelcol_rl, tmp_path, ["--role", "local"], **variables) as collector:

        def flood() -> None:
            answers.extend(post(collector, large)[0] for _ in range(25))

        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(answers) <= {200, 429, 500, 503}, answers
        # The limiter looks once a second and the program's own pages count too; without a bound it would be gigabytes.
        assert memory(collector) < 2 * limit
        name, body = neighbour()
        wait_for(lambda: post(collector, body)[0] == 200, "it takes data again")
        _stored(collector, name)
