"""Asks for the experiment and the run of the variables; changes nothing on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.trackers.mlflow import server
from otel_rl.trackers.mlflow.api import MISSING, MlflowApi, MlflowReply, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.pipeline.otlp_answer import OtlpAnswer

_DELETED = "deleted"
#: The tag by which a run of MLflow is found from one of ours.
RUN_ID_TAG = "otel_rl.run_id"


class Lookup(NamedTuple):
    """What was found, and whether it can be written to."""

    answer: OtlpAnswer
    content: Mapping[str, Any]
    #: There is none of that name; the leading rank makes it.
    is_missing: bool = False

    @property
    def experiment_id(self) -> str:
        """The experiment, or that of the run; empty where it is not known."""
        return str(self.content.get("info", self.content).get("experiment_id") or "")


def find_run(api: MlflowApi, run_id: str) -> Lookup:
    """Look for a run that somebody has made."""
    reply = api.get("runs/get", run_id=run_id)
    if not reply.succeeded:
        is_unknown = reply.error == MISSING
        return Lookup(refusal(f"code: 404, run {run_id} does not exist") if is_unknown else reply.answer, {})
    run = {"info": {}, **_part(reply, "run")}
    if run["info"].get("lifecycle_stage") == _DELETED:
        return Lookup(refusal(f"code: 400, run {run_id} is {_DELETED}"), run)
    return Lookup(reply.answer, run)


def find_experiment(api: MlflowApi, target: server.TrackingServer) -> Lookup:
    """Look for the experiment of the variables."""
    if target.experiment_name and not target.experiment_id:
        reply = api.get("experiments/get-by-name", experiment_name=target.experiment_name)
        if reply.error == MISSING:
            return Lookup(reply.answer, {}, is_missing=True)
    else:
        wanted = target.experiment_id or server.DEFAULT_EXPERIMENT
        reply = api.get("experiments/get", experiment_id=wanted)
        if reply.error == MISSING:
            return Lookup(refusal(f"code: 404, experiment {wanted} does not exist"), {})
    if not reply.succeeded:
        return Lookup(reply.answer, {})
    experiment = _part(reply, "experiment")
    if experiment.get("lifecycle_stage") == _DELETED:
        return Lookup(refusal(f"code: 400, experiment {experiment.get('name')} is {_DELETED}"), {})
    if not experiment.get("experiment_id"):
        return Lookup(refusal("code: 404, no experiment in the answer"), {})
    return Lookup(reply.answer, experiment)


def find_own_run(api: MlflowApi, experiment_id: str, run_id: str) -> Lookup:
    """Look for the newest run of MLflow that belongs to our run ``run_id``; without content where there is none."""
    quoted = run_id.replace("'", "")
    content = {
        "experiment_ids": [experiment_id],
        "filter": f"tags.`{RUN_ID_TAG}` = '{quoted}'",
        "max_results": 1,
        "order_by": ["attributes.start_time DESC"],
    }
    reply = api.post("runs/search", content)
    runs: list[Any] = reply.body.get("runs") or [{}]
    return Lookup(reply.answer, runs[0])


def _part(reply: MlflowReply, name: str) -> dict[str, Any]:
    part = reply.body.get(name)
    return part if isinstance(part, dict) else {}
