"""``otel-rl doctor`` says whether late ranks can be named on NCCL, and what keeps them from it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_rl.cli import main
from otel_rl.cli.doctor import late_ranks

pytestmark = pytest.mark.usefixtures("no_variables")
READY = {
    "otel_rl_torch_distributed": {"state": "ready", "installed": "torch 2.13.0", "supports": "torch", "reason": ""}
}


@pytest.fixture(autouse=True)
def _instrumentors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_rl.cli.doctor.installed_instrumentors.states", lambda _: READY)


def _found(capsys: Any) -> tuple[str, list[str]]:
    main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    return found["late_ranks"], found["problems"]


def test_without_timing_it_says_how_to_switch_it_on(capsys: Any) -> None:
    said, problems = _found(capsys)

    assert said.endswith("nothing can be said of who is late on NCCL without OTEL_RL_NCCL_TIMING=on")
    assert problems == []
    main(["doctor"])
    assert "OTEL_RL_NCCL_TIMING=on" in capsys.readouterr().out


def test_with_timing_both_back_ends_are_named(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("OTEL_RL_NCCL_TIMING", "on")

    assert _found(capsys) == ("named with gloo and with NCCL", [])


def test_a_variable_of_pytorch_that_keeps_the_times_away_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("OTEL_RL_NCCL_TIMING", "on")
    monkeypatch.setenv("TORCH_NCCL_ENABLE_TIMING", "0")

    assert any("TORCH_NCCL_ENABLE_TIMING=0" in problem for problem in _found(capsys)[1])


def test_an_old_pytorch_is_a_problem(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("OTEL_RL_NCCL_TIMING", "on")
    monkeypatch.setitem(READY["otel_rl_torch_distributed"], "installed", "torch 2.7.1")

    assert any("torch 2.7.1 cannot be asked" in problem for problem in _found(capsys)[1])


def test_where_torch_is_not_recorded_nothing_is_said() -> None:
    assert late_ranks.state(None, {}, {}) == ("", [])  # type: ignore[arg-type]
