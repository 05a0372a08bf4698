"""Values become plain, valid and short; nothing reads a tensor on a device."""

from __future__ import annotations

import enum
import json
import os
import signal
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import otel_rl
from otel_rl.semconv import events, metrics, spans
from otel_rl.telemetry import Scope, drops
from otel_rl.telemetry.attribute_values import MAXIMUM_ATTRIBUTES, MAXIMUM_LENGTH, clean, number, plain, score
from otel_rl.telemetry.content_capture import content_as_json
from otel_rl.tools.calls import ToolCall

_scope = Scope("test")
LONE = "\ud83d"
SURROGATES = st.text(st.characters(exclude_categories=()), max_size=20)
ANYTHING: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | SURROGATES
    | st.binary(max_size=20)
    | st.none().map(lambda _: 10**5000)
    | st.sampled_from([LONE, "a\0b", np.float32(0.5), np.int64(3), np.bool_(True), np.zeros(3), object(), {1, 2}]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SURROGATES | st.integers(), inner, max_size=4),
    max_leaves=20,
)


class Color(enum.Enum):
    RED = "red"


class Hostile:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class DeviceTensor:
    """Has the module and the attributes of a tensor on a device; reading it fails the test."""

    shape, dtype = (), "float32"

    class device:  # noqa: N801 - an attribute of tensors
        type = "cuda"

        def __repr__(self):
            return "cuda:0"

    def item(self):
        pytest.fail("waited for the device")

    __str__ = __repr__ = __float__ = __int__ = __array__ = tolist = item


DeviceTensor.__module__ = "torch"
DeviceTensor.__name__ = "Tensor"


@given(value=ANYTHING, key=SURROGATES)
def test_whatever_is_given_can_be_encoded(value, key, pipeline):
    pipeline.clear()
    _scope.end_span(_scope.start_span(spans.RL_GENERATE, name=key or None, attributes={key: value, "ours": 1}))
    _scope.event(events.RL_STEP, body={"x": value, key: 1}, attributes={key: value})
    encode_spans(pipeline.spans).SerializeToString()
    encode_logs(pipeline._logs.get_finished_logs()).SerializeToString()
    assert pipeline.spans[0].attributes["ours"] == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x" + LONE, "x\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("a\0b", "a\ufffdb"),
        (b"\xffab", "\ufffdab"),
        (bytearray(b"ab"), "ab"),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array(3), 3),
        (Color.RED, "red"),
        (1 << 63, "0x8000000000000000"),
        ((1, [None, {2: b"x"}]), [1, [None, {"2": "x"}]]),
        (Hostile(), "<Hostile>"),
        (DeviceTensor(), "<Tensor shape=() dtype=float32 device=cuda:0>"),
    ],
)
def test_values_of_other_types_become_plain_ones(value, expected):
    found = plain(value)
    if isinstance(expected, str) and "device" in expected:
        assert found.startswith("<Tensor shape=() dtype=float32 device=")
    else:
        assert found == expected
        assert type(found) is type(expected)


def test_a_tensor_in_the_hosts_memory_is_a_number_and_one_on_a_device_is_not_read(recorded):
    torch = pytest.importorskip("torch")
    assert number(torch.tensor(0.5)) == 0.5
    assert number(torch.tensor([2])) == 2
    assert number(torch.zeros(2)) is None
    assert number(torch.empty((), device="meta")) is None
    assert number(DeviceTensor()) is None
    before = drops.snapshot().get(("metrics", "unsupported_type"), 0)
    otel_rl.reward("f", DeviceTensor())
    otel_rl.metric("k", DeviceTensor())
    assert drops.snapshot()["metrics", "unsupported_type"] == before + 2


def test_the_fields_of_a_data_class_are_taken_without_its_repr():
    @dataclass
    class Sample:
        name: str
        logits: Any

    assert plain(Sample("a", DeviceTensor()))["name"] == "a"


def test_attributes_beyond_the_sdks_limit_and_without_a_name_are_counted_not_logged(recorded, caplog):
    before = drops.snapshot().get(("traces", "attribute_limit"), 0)
    given = {"": 1, **{f"key.{number}": number for number in range(200)}}
    _scope.end_span(_scope.start_span(spans.RL_GENERATE, attributes=given))
    assert len(recorded.span("rl.generate").attributes) == MAXIMUM_ATTRIBUTES
    assert drops.snapshot()["traces", "attribute_limit"] == before + 200 - MAXIMUM_ATTRIBUTES
    assert caplog.text == ""


def test_nested_values_stay_bounded():
    deep: Any = "end"
    for _ in range(100):
        deep = [deep]
    assert len(str(plain(deep))) < 100
    assert len(plain(list(range(10**5)))) < 2000
    assert clean({"k": [{"x": "y" * 10**5}] * 3})["k"][0]["x"].endswith("characters]")


@given(value=ANYTHING | st.text(min_size=0, max_size=30).map(lambda text: [text * 2000, {"k": text * 900}] * 9))
def test_content_is_valid_json_however_long_it_is(value):
    encoded = content_as_json(value)
    assert len(encoded) <= MAXIMUM_LENGTH
    json.loads(encoded, parse_constant=pytest.fail)
    encoded.encode()


def test_a_tool_result_is_cut_and_still_json(recorded, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    with ToolCall(_scope, "read", arguments={"path": 'a"' * 10**5}) as call:
        call.result(["x" * 10**5, "\n" * 10**5, 7])
    values = recorded.span("execute_tool read").attributes
    for key in ("gen_ai.tool.call.result", "gen_ai.tool.call.arguments"):
        assert len(values[key]) <= MAXIMUM_LENGTH
        assert json.loads(values[key])


def test_names_of_spans_tools_and_events_are_valid_and_short(recorded):
    with otel_rl.tool("tool " + LONE + "x" * 5000):
        otel_rl.event("event" + LONE)
    (span,) = recorded.spans
    assert len(span.name) == 1024
    span.name.encode()
    assert recorded.events()[0].event_name == "event\ufffd"
    (point,) = recorded.metrics()["gen_ai.execute_tool.duration"]
    assert len(point.attributes["gen_ai.tool.name"]) == 256


@pytest.mark.parametrize("value", [True, np.bool_(True), "1", None, float("nan"), DeviceTensor()])
def test_no_truth_value_text_or_tensor_is_a_score(value):
    assert score(value) is None


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int8(1)])
def test_any_real_number_is_a_score(value):
    assert score(value) == float(value)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 10**400])
def test_values_that_no_double_holds_are_dropped_and_counted(value, recorded):
    before = drops.snapshot().get(("metrics", "non_finite"), 0)
    _scope.record(metrics.RL_ROLLOUT_DURATION, value)
    assert drops.snapshot()["metrics", "non_finite"] == before + 1


class TimeoutOfProgramError(Exception):
    pass


def _time_out(*_: object) -> None:
    raise TimeoutOfProgramError


class Slow(dict):
    """Its items take until the program's timeout."""

    def items(self):
        os.kill(os.getpid(), signal.SIGALRM)
        return super().items()


@pytest.fixture
def timeout():
    before = signal.signal(signal.SIGALRM, _time_out)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("timeout")
def test_a_timeout_of_the_program_while_a_value_is_looked_at_reaches_the_program():
    with pytest.raises(TimeoutOfProgramError):
        plain(Slow(a=1))
