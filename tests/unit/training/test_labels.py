"""``OTEL_RL_LABELS``: other names for what is logged, by every source."""

from __future__ import annotations

import pytest

import otel_rl
from otel_rl.core import settings
from otel_rl.telemetry import Scope, drops
from otel_rl.training import labels
from otel_rl.training.scalars import ScalarSink, Source

_scope = Scope("test")


@pytest.fixture
def labelled(recorded, monkeypatch):
    def set_to(text):
        monkeypatch.setenv("OTEL_RL_LABELS", text)
        settings.reset()
        labels.reset()

    drops.reset()
    yield set_to
    monkeypatch.undo()
    settings.reset()
    labels.reset()


@pytest.mark.parametrize(
    ("rules", "key", "name"),
    [
        ("train/loss=loss", "train/loss", "loss"),
        ("train/loss=loss", "eval/loss", "eval/loss"),
        ("my/*=eval/*", "my/acc/top1", "eval/acc/top1"),
        ("*/loss=loss/*", "actor/loss", "loss/actor"),
        ("debug/*=-", "debug/x", None),
        ("noise=-", "noise", None),
        ("debug/kept=kept, debug/*=-", "debug/kept", "kept"),
        ("acc@k=5=accuracy", "acc@k=5", "accuracy"),
        ("a*a=-", "a", "a"),
    ],
)
def test_the_first_rule_that_fits_names_a_key(labelled, rules, key, name):
    labelled(rules)
    assert labels.name_of(key) == name
    assert labels.name_of(key) == name, "remembered"


@pytest.mark.parametrize("rules", ["loss", "=loss", "loss=", "a/*=b", "a=b/*", "a/**=b/*", "a/*/*=-", "a=b,c"])
def test_a_rule_of_another_form_is_refused_with_the_form(rules):
    parsed, [complaint] = settings.load({"OTEL_RL_LABELS": rules})
    assert parsed.labels is None
    assert "key=name" in complaint
    assert "using (none)" in complaint


def test_a_renamed_key_is_the_metric_of_its_name_and_a_hidden_one_is_counted(labelled, recorded):
    labelled("my/return=reward,debug/*=-")
    ScalarSink().log(_scope, Source.WANDB, 1, {"my/return": 0.25, "debug/x": 1.0})
    assert [event.body for event in recorded.events("rl.step")] == [{"reward": 0.25}]
    assert 0.25 in [point.value for point in recorded.metrics()["rl.environment.reward.mean"]]
    assert drops.snapshot() == {("logs", "hidden"): 1}


def test_of_two_values_under_one_name_the_last_stays_and_the_other_is_counted(labelled, recorded):
    labelled("a=c,b=c")
    ScalarSink().log(_scope, Source.WANDB, 1, {"a": 1.0, "b": 2.0})
    assert [event.body for event in recorded.events("rl.step")] == [{"c": 2.0}]
    assert drops.snapshot() == {("logs", "same_name"): 1}


def test_values_of_the_producer_have_the_names_too(labelled, recorded):
    labelled("buffer/*=replay/*")
    with otel_rl.step(1):
        otel_rl.metric("buffer/size", 3)
    [event] = recorded.events("rl.step")
    assert event.body == {"replay/size": 3}
