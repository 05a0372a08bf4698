"""What cannot be recorded, or is written wrongly: a line or an exception says what to write."""

from __future__ import annotations

import types

import numpy as np
import pytest

import otel_rl
from otel_rl.api import user_messages
from otel_rl.core.guard import RAISE_ENVIRONMENT_VARIABLE
from otel_rl.telemetry import deferral, drops
from otel_rl.telemetry.content_capture import CAPTURE_ENVIRONMENT_VARIABLE
from otel_rl.training import trajectories


class DeviceTensor:
    """A tensor on a device: reading it would wait."""

    shape, device = (), types.SimpleNamespace(type="cuda")

    def __bool__(self):  # noqa: PLE0304 - it never returns
        pytest.fail("waited for the device")

    item = tolist = __float__ = __bool__


DeviceTensor.__module__, DeviceTensor.__name__, DeviceTensor.__qualname__ = "torch", "Tensor", "Tensor"


@pytest.fixture(autouse=True)
def _messages():
    drops.reset()
    user_messages.forget()
    yield
    user_messages.forget()


def rows(recorded):
    trajectories.record()
    deferral.drain_all()
    return [record.body for record in recorded.events("rl.trajectories")]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("good", "str, and is not recorded: give a number, or None where there is none"),
        ({"exact": 1.0}, "dict, and is not recorded: give the value that is the score, and the others as parts"),
        (DeviceTensor(), "Tensor, and is not recorded: give one element in the host's memory"),
    ],
)
def test_a_score_that_is_no_number_is_said_once_with_what_to_give(recorded, capfd, value, what):
    with otel_rl.rollout():
        otel_rl.reward("quality", value)
        otel_rl.reward("quality", value)
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f'otel-rl: the score of "quality" is no number but a {what}')
    assert drops.snapshot()["metrics", "unsupported_type"] == 2


@pytest.mark.parametrize(
    "give",
    [
        lambda value: otel_rl.metric("size", value),
        lambda value: otel_rl.rollout_metric("size", value),
        lambda value: otel_rl.count("my.size", value),
        lambda value: otel_rl.observe("my.size", value),
    ],
    ids=["metric", "rollout_metric", "count", "observe"],
)
@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("large", "str, and is not recorded: give a number\n"),
        (DeviceTensor(), "Tensor, and is not recorded: give one element in the host's memory"),
    ],
)
def test_a_value_of_the_program_that_is_no_number_is_said_once(recorded, capfd, give, value, what):
    with otel_rl.rollout():
        give(value)
        give(value)
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith('otel-rl: the value of "')
    assert f'size" is no number but a {what}' in said
    assert drops.snapshot()["metrics", "unsupported_type"] == 2


@pytest.mark.parametrize("step", ["3", 1.5, True, 2**63, float("nan"), object()])
def test_a_step_that_is_none_costs_the_value_and_is_said_once(recorded, capfd, step):
    for _ in range(2):
        otel_rl.metric("of no step", 1.0, step=step)

    (said,) = capfd.readouterr().err.splitlines()
    assert said.startswith(
        f'otel-rl: the step of "of no step" is no whole number of 64 bit ({type(step).__qualname__})'
    )
    assert said.endswith("give the number of the step, or leave it out for the open one")
    assert drops.snapshot() == {("metrics", "unsupported_type"): 2}
    points = recorded.metrics().get("rl.trainer.metric", ())
    assert "of no step" not in {point.attributes["rl.trainer.metric.key"] for point in points}


def test_a_loop_that_scores_wrongly_in_many_ways_says_few_lines(recorded, capfd):
    for number in range(100):
        otel_rl.reward(f"f{number}", "good")
    assert capfd.readouterr().err.count("\n") == 8


def test_many_names_with_a_bad_value_do_not_hide_the_advice_about_a_score(recorded, capfd):
    for number in range(100):
        otel_rl.metric(f"stage/{number}", "high")
    otel_rl.reward("exact", {"score": 1.0})
    said = capfd.readouterr().err
    assert said.count("the value of") == 8
    assert "give the value that is the score, and the others as parts" in said


def test_a_metric_that_has_no_value_yet_is_no_mistake(recorded, capfd):
    otel_rl.metric("size", None)
    assert capfd.readouterr().err == ""
    assert drops.snapshot() == {}


def test_success_is_taken_where_no_code_of_the_program_and_no_device_has_to_tell_it(recorded):
    with otel_rl.rollout() as it:
        it.succeed(DeviceTensor())
    with otel_rl.rollout():
        otel_rl.reward("f", 1.0, success=DeviceTensor())
    with otel_rl.rollout() as it:
        it.succeed(np.bool_(True))
    [row] = rows(recorded)
    assert row["rl.rollout.success"] == [None, None, True]
    assert drops.snapshot() == {("logs", "unsupported_type"): 2}


@pytest.mark.parametrize(
    ("decorate", "what"),
    [
        (otel_rl.phase, r'write @otel_rl.phase\("sample"\), with parentheses'),
        (otel_rl.step, r"write `with otel_rl.step\(iteration\):`"),
        (otel_rl.step(1), r"write `with otel_rl.step\(iteration\):`"),
    ],
)
def test_a_decorator_that_is_none_says_what_to_write(decorate, what):
    with pytest.raises(TypeError, match=what):

        @decorate
        def train():
            """Never called."""


def test_a_step_is_a_block_as_before(recorded):
    with otel_rl.step(7) as step:
        assert callable(step)
    deferral.drain_all()


def test_a_class_whose_call_is_no_function_is_refused_with_what_to_do():
    class Judge:
        __call__ = len

    before = Judge.__call__
    for decorate in (otel_rl.rollout(), otel_rl.reward_function("f")):
        with pytest.raises(
            TypeError, match=r"Judge.__call__ is no function but a builtin_function_or_method: decorate"
        ):
            decorate(Judge)
    assert Judge.__call__ is before


class Broken(dict):
    def items(self):
        raise RuntimeError("of the program")


def test_an_argument_that_cannot_be_written_costs_its_value_and_not_the_call(recorded, monkeypatch):
    monkeypatch.setenv(CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY")
    monkeypatch.delenv(RAISE_ENVIRONMENT_VARIABLE)

    @otel_rl.rollout()
    def collect(settings):
        return 1

    assert collect(Broken(a=1)) == 1
    span = recorded.span("rl.rollout")
    assert span.attributes["rl.rollout.input"] == '{"settings": "<Broken>"}'
    assert span.attributes["rl.rollout.output"] == "1"
