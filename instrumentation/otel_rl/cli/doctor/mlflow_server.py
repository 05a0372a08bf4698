"""Whether the MLflow server of the variables would take what a run writes; nothing is written there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.trackers.mlflow import destination, following, lookups, server, traces
from otel_rl.trackers.mlflow.api import MlflowApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.trackers.mlflow.lookups import Lookup

#: What MLflow answers to an OTLP request without spans, where all is well.
_NO_SPANS = "code: 400"


def state(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return address, version, experiment and run of the server, and ``problems``, a sentence each."""
    target, named = server.configured(environ), environ.get(server.RUN_ID, "").strip()
    state = {"destination": target.shown, "version": "", "experiment": "", "run": named, "traces": ""}
    if target.problem:
        return {**state, "problems": [f"MLflow: {target.problem}; {destination.fix(target.problem)}"]}
    api = MlflowApi(target)
    try:
        found = lookups.find_run(api, named) if named else lookups.find_experiment(api, target)
        state["experiment"] = _experiment(found, target)
        reasons = [] if found.answer.is_acceptance or found.is_missing else [found.answer.reason]
        if not reasons:
            state["version"] = api.version()
            state["traces"], reason = _ask_for_traces(api, found, environ)
            reasons = [reason] if reason else []
    finally:
        api.close()
    return {**state, "problems": [f"MLflow: {target.shown}: {reason}; {destination.fix(reason)}" for reason in reasons]}


def _experiment(found: Lookup, target: server.TrackingServer) -> str:
    if found.is_missing:
        return f"{target.experiment_name} (a run makes it)"
    return str(found.content.get("name") or found.experiment_id)


def _ask_for_traces(api: MlflowApi, found: Lookup, environ: Mapping[str, str]) -> tuple[str, str]:
    """Send an OTLP request without spans, as doctor does to every destination; return the state, and why not."""
    if not following.takes_spans(environ):
        return "go to the exporter of the variables", ""
    headers = {**traces.PROTOBUF, traces.EXPERIMENT: found.experiment_id or server.DEFAULT_EXPERIMENT}
    reply = api.send("POST", traces.ROUTE, b"", headers)
    if reply.succeeded or reply.answer.reason.startswith(_NO_SPANS):
        return "yes", ""
    return "no", traces.located(reply.answer).reason
