"""``otel-rl doctor`` says how workers of Ray get to know of us, to those who have Ray."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.cli import main
from otel_rl.cli.doctor import ray_workers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_variables")


@pytest.fixture(autouse=True)
def _ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_ADDRESS", "RAY_RUNTIME_ENV_HOOK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(ray_workers, "find_spec", lambda _: object())
    monkeypatch.setattr("otel_rl.cli.doctor.installed_instrumentors.states", lambda _: {})


def _found(capsys: Any) -> tuple[str, list[str]]:
    main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    return found["ray_workers"], found["problems"]


def test_without_ray_it_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(ray_workers, "find_spec", lambda _: None)

    assert _found(capsys) == ("", [])
    main(["doctor"])
    assert "Ray" not in capsys.readouterr().out


def test_the_hook_is_ours_or_the_users_first(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert _found(capsys) == (
        "ray.init asks RAY_RUNTIME_ENV_HOOK, which is ours; workers of its own cluster record",
        [],
    )

    monkeypatch.setenv("RAY_RUNTIME_ENV_HOOK", "mine.hook")
    assert _found(capsys)[0].startswith("ray.init asks RAY_RUNTIME_ENV_HOOK: yours (mine.hook), then ours")
    main(["doctor"])
    assert "yours (mine.hook), then ours" in capsys.readouterr().out


def test_a_cluster_that_runs_is_named_with_what_its_workers_need(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text("10.0.0.1:6379", encoding="utf-8")

    said, problems = _found(capsys)
    assert f"on the cluster at 10.0.0.1:6379 ({tmp_path}/ray/ray_current_cluster) workers record by it alone" in said
    assert "`ray job submit` needs it in its entrypoint: opentelemetry-instrument python train.py" in said
    assert problems == []

    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6379")
    assert "on the cluster at 10.0.0.2:6379 (RAY_ADDRESS)" in _found(capsys)[0]


@pytest.mark.parametrize("address", ["local", "http://127.0.0.1:8265"])
def test_an_address_that_names_no_cluster_for_ray_init_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)

    assert _found(capsys)[0].endswith("workers of its own cluster record")


def test_rays_client_which_asks_no_hook_is_a_problem(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://10.0.0.2:10001")

    (problem,) = _found(capsys)[1]
    assert "Ray's client asks no hook, so workers record nothing; start the head under" in problem
