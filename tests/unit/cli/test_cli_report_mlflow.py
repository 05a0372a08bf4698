"""``otel-rl report --mlflow`` uploads the page to the run that belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.mlflow_server import API, StandIn
from unit.report.synthetic_run import GrpoRun

from otel_rl.cli import main
from otel_rl.store.reader import find_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A server, and the variable that names it."""
    server = StandIn()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    yield server
    server.stop()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Files of a run."""
    return GrpoRun(tmp_path / "data", steps=2, error=False).write()


def tagged(mlflow: StandIn, run_id: str | None, **info: Any) -> str:
    """A run of MLflow with the tag of ours."""
    tags = [{"key": "otel_rl.run_id", "value": run_id}]
    made: str = mlflow.ask(f"{API}runs/create", {"experiment_id": "0", "tags": tags})["run"]["info"]["run_id"]
    mlflow.stored[made]["info"].update(info)
    return made


def test_it_is_found_by_the_tag_of_our_run(mlflow: StandIn, run: Path, capsys: Any) -> None:
    tagged(mlflow, "another")
    number = tagged(mlflow, find_run(run, None).run_id)

    assert main(["report", str(run), "--mlflow"]) == 0
    [(path, page)] = mlflow.artifacts.items()
    assert path == f"0/{number}/artifacts/otel-rl/report.html"
    assert page.startswith(b"<!DOCTYPE html>")
    assert f"uploaded to {mlflow.url}/#/experiments/0/runs/{number}" in capsys.readouterr().err


def test_the_run_of_the_variable_wins(mlflow: StandIn, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = tagged(mlflow, "another")
    monkeypatch.setenv("MLFLOW_RUN_ID", number)
    assert main(["report", str(run), "--mlflow"]) == 0
    assert list(mlflow.artifacts) == [f"0/{number}/artifacts/otel-rl/report.html"]


@pytest.mark.parametrize(
    ("info", "fix"),
    [
        (None, "name the run in MLFLOW_RUN_ID"),
        ({"artifact_uri": "s3://bucket/x"}, "mlflow artifacts log-artifact --local-file"),
    ],
    ids=["no run", "artifacts elsewhere"],
)
def test_where_that_fails_the_page_is_there_and_the_fix_named(
    mlflow: StandIn, run: Path, capsys: Any, info: dict[str, str] | None, fix: str
) -> None:
    if info is not None:
        tagged(mlflow, find_run(run, None).run_id, **info)
    assert main(["report", str(run), "--mlflow"]) == 2
    assert fix in capsys.readouterr().err
    assert (run / "report.html").exists() or list(run.rglob("report.html"))


def test_without_a_server_the_variable_is_asked_for(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert main(["report", str(run), "--mlflow"]) == 2
    assert "set MLFLOW_TRACKING_URI" in capsys.readouterr().err
