"""Parameters that a program gives a tracker."""

from __future__ import annotations

from otel_rl.core import settings
from otel_rl.telemetry import Scope
from otel_rl.training import run_parameters

_scope = Scope("test")


class Configuration:
    """What programs put into configurations."""

    def __repr__(self):
        return "Configuration()"


def test_nested_parameters_are_flat_and_secrets_are_removed(recorded):
    given = {
        "lr": 1e-5,
        "optimizer": {"name": "adam", "betas": [0.9, 0.99]},
        "wandb_api_key": "0123456789abcdef",
        "url": "https://user:pw@host/path?token=x",
        "pad_token_id": 0,
        "flag": True,
        "nothing": None,
        "object": Configuration(),
    }
    run_parameters.record(_scope, given)
    [event] = recorded.events("rl.run.parameters")
    assert {name: value for name, value in event.body.items() if name != "object"} == {
        "lr": 1e-5,
        "optimizer.name": "adam",
        "optimizer.betas": [0.9, 0.99],
        "wandb_api_key": "***",
        "url": "https://***@host/path?***",
        "pad_token_id": 0,
        "flag": True,
        "nothing": None,
    }


def test_none_are_recorded_where_arguments_are_not(recorded, monkeypatch):
    monkeypatch.setenv("OTEL_RL_ARGUMENTS", "off")
    settings.reset()
    run_parameters.record(_scope, {"lr": 1.0})
    monkeypatch.undo()
    settings.reset()
    assert recorded.events("rl.run.parameters") == []
