"""``otel-rl doctor`` asks an MLflow server, and writes nothing there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.mlflow_server import API, Fault, StandIn

from otel_rl.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Doctor = Callable[..., list[str]]

BAD_HOST = b"Invalid Host header - possible DNS rebinding attack detected"


@pytest.fixture
def mlflow(no_variables: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A server, and the variables that name it."""
    server = StandIn()
    monkeypatch.setenv("OTEL_RL_MLFLOW", "1")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    yield server
    server.stop()


@pytest.fixture
def checked(one_library: None, capfd: Any) -> Callable[[], dict[str, Any]]:
    """What doctor found."""

    def ask() -> dict[str, Any]:
        main(["doctor", "--json"])
        found: dict[str, Any] = json.loads(capfd.readouterr().out)
        return found

    return ask


def test_a_server_that_is_well_is_described(mlflow: StandIn, checked: Callable[[], dict[str, Any]]) -> None:
    found = checked()
    assert found["problems"] == []
    assert found["mlflow"] == {
        "destination": mlflow.url,
        "version": "3.17.2",
        "experiment": "Default",
        "run": "",
        "traces": "yes",
    }
    assert (mlflow.stored, mlflow.spans, len(mlflow.experiments)) == ({}, [], 1)


def test_the_text_names_it_too(mlflow: StandIn, one_library: None, capsys: Any) -> None:
    main(["doctor"])
    assert f"{mlflow.url}, version 3.17.2, experiment Default, traces: yes" in capsys.readouterr().out


def test_an_experiment_that_a_run_would_make_is_no_problem(
    mlflow: StandIn, checked: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "new")
    found = checked()
    assert found["problems"] == []
    assert found["mlflow"]["experiment"] == "new (a run makes it)"


@pytest.mark.parametrize(
    ("fault", "fix"),
    [
        (Fault(API, 401), "MLFLOW_TRACKING_USERNAME"),
        (Fault(API, 403, BAD_HOST), "--allowed-hosts"),
        (Fault(API, 404, b"<html>"), "no MLflow server"),
        (Fault("/v1/traces", 404, b"<html>"), "from version 3.6"),
        (Fault("/v1/traces", 422), "x-mlflow-experiment-id"),
    ],
    ids=["credentials", "host", "other server", "old server", "header removed"],
)
def test_an_answer_is_named_with_its_fix(
    mlflow: StandIn, checked: Callable[[], dict[str, Any]], fault: Fault, fix: str
) -> None:
    mlflow.faults.append(fault)
    [problem] = checked()["problems"]
    assert problem.startswith(f"MLflow: {mlflow.url}: code: {fault.status}")
    assert fix in problem


@pytest.mark.parametrize(
    ("variables", "fix"),
    [
        ({"MLFLOW_EXPERIMENT_ID": "999"}, "correct MLFLOW_EXPERIMENT_ID"),
        ({"MLFLOW_RUN_ID": "nope"}, "correct MLFLOW_RUN_ID"),
        ({"MLFLOW_TRACKING_URI": "sqlite:///m.db"}, "http address"),
        ({"MLFLOW_TRACKING_URI": ""}, "http address"),
    ],
    ids=["experiment", "run", "database", "unset"],
)
def test_a_variable_is_named_with_its_fix(
    mlflow: StandIn,
    checked: Callable[[], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    fix: str,
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    [problem] = checked()["problems"]
    assert fix in problem


@pytest.mark.parametrize(
    ("headers", "fault", "meaning"),
    [
        ("x-mlflow-experiment-id=0", None, ""),
        ("", None, "add x-mlflow-experiment-id=0 to OTEL_EXPORTER_OTLP_HEADERS"),
        ("x-mlflow-experiment-id=0", Fault("", 403, BAD_HOST), "--allowed-hosts"),
    ],
    ids=["well", "no experiment", "host"],
)
def test_mlflows_own_otlp_route_is_understood_as_a_destination(
    doctor: Doctor, headers: str, fault: Fault | None, meaning: str
) -> None:
    server = StandIn()
    server.faults += [fault] if fault is not None else []
    variables = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{server.url}/v1/traces",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_HEADERS": headers,
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
    }
    try:
        problems = doctor("", **variables)
    finally:
        server.stop()
    assert len(problems) == bool(meaning)
    assert all(meaning in problem for problem in problems)
