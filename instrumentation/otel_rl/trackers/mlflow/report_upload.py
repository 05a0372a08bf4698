"""Uploads the page of ``otel-rl report`` to the run of MLflow that belongs to it. Never at the end of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from otel_rl.trackers.mlflow import destination, lookups, server
from otel_rl.trackers.mlflow.api import MlflowApi

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.trackers.mlflow.lookups import Lookup

FOLDER = "otel-rl"
#: Artifacts that the server stores itself; others only MLflow's own client can write.
_PROXIED = "mlflow-artifacts:"
_ROUTE = "/api/2.0/mlflow-artifacts/artifacts/"


class NotUploaded(Exception):  # noqa: N818 - the user reads its text
    """Why not, and what to do."""


def upload(page: Path, run_id: str | None) -> str:
    """Upload ``page`` to the run of ``MLFLOW_RUN_ID``, else to that of our run ``run_id``; return its address.

    Raises:
        NotUploaded: the text is for the user.
    """
    target = server.configured_now()
    if target.problem:
        raise _failure(target.shown, target.problem)
    api = MlflowApi(target)
    try:
        run = _find(api, target, run_id)
        uri, number = str(run.content["info"].get("artifact_uri") or ""), run.content["info"]["run_id"]
        if not uri.startswith(_PROXIED):
            raise NotUploaded(
                f"the server leaves artifacts to its clients ({uri.partition(':')[0]}); upload it with"
                f" `mlflow artifacts log-artifact --local-file {page} --run-id {number} --artifact-path {FOLDER}`"
            )
        path = quote(f"{uri.removeprefix(_PROXIED).lstrip('/')}/{FOLDER}/{page.name}")
        reply = api.send("PUT", _ROUTE + path, page.read_bytes(), {"content-type": "text/html"})
        if not reply.succeeded:
            raise _failure(target.shown, reply.answer.reason)
        return f"{target.shown}/#/experiments/{run.experiment_id}/runs/{number}/artifacts/{FOLDER}/{page.name}"
    finally:
        api.close()


def _find(api: MlflowApi, target: server.TrackingServer, run_id: str | None) -> Lookup:
    if named := server.run_id():
        found = lookups.find_run(api, named)
    else:
        experiment = lookups.find_experiment(api, target)
        if not experiment.answer.is_acceptance:
            raise _failure(target.shown, experiment.answer.reason)
        found = lookups.find_own_run(api, experiment.experiment_id, str(run_id))
    if not found.answer.is_acceptance:
        raise _failure(target.shown, found.answer.reason)
    if not found.content:
        raise NotUploaded(
            f"{target.shown} has no run with the tag {lookups.RUN_ID_TAG}={run_id} in this experiment; name the run in"
            f" {server.RUN_ID}, or its experiment in {server.EXPERIMENT_NAME}"
        )
    return found


def _failure(where: str, reason: str) -> NotUploaded:
    return NotUploaded(f"{where}: {reason}; {destination.fix(reason)}")
