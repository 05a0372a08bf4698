"""What an answer of the tracking server means, and how to mend it; for the last line, the reports and doctor."""

from __future__ import annotations

import re
from dataclasses import dataclass

from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.sink import NO_ANSWER
from otel_rl.trackers.mlflow import server

#: Name of the exporter in counts and messages.
EXPORTER = "mlflow"
_RUNS_WITHOUT = "the run of MLflow gets no values from here on"
#: Pattern of the reason of a failed request -> the fix. The first that fits counts.
_FIXES = (
    (rf"{server.TRACKING_URI}", f"set {server.TRACKING_URI} to the http address of `mlflow server`"),
    (
        "Invalid Host header",
        "the server refuses the name by which it is addressed; start it with `--allowed-hosts HOST:PORT`",
    ),
    ("code: 401", f"set {server.USERNAME} and {server.PASSWORD}, or {server.TOKEN}"),
    ("code: 403", f"these credentials may not write there; use others in {server.USERNAME} or {server.TOKEN}"),
    ("run .* is deleted", f"restore it with `mlflow runs restore`, or unset {server.RUN_ID}; {_RUNS_WITHOUT}"),
    ("run .* does not exist", f"correct {server.RUN_ID}; {_RUNS_WITHOUT}"),
    ("experiment .* is deleted", f"restore it with `mlflow experiments restore`, or change {server.EXPERIMENT_NAME}"),
    ("experiment .* does not exist", f"correct {server.EXPERIMENT_ID}"),
    ("waits for the leading rank", "the leading rank makes the experiment; it has not done so yet"),
    ("code: 404 at /v1/traces", "MLflow takes traces from version 3.6 on; values are written without them"),
    ("code: 404|HTML page|redirect", f"it is no MLflow server; correct {server.TRACKING_URI}"),
    ("code: 422", "the request names no experiment; a proxy has removed the header x-mlflow-experiment-id perhaps"),
    ("code: 501", "its store takes no traces; give it a database: `mlflow server --backend-store-uri sqlite:///m.db`"),
    ("code: 429|code: 5", "it is overloaded or not ready; look at its log"),
    ("CERTIFICATE|certificate|SSL|handshake", f"set {server.SERVER_CERTIFICATE} to the file of its authority"),
    (NO_ANSWER, "it was too slow for the end of the process; OTEL_RL_EXIT_TIMEOUT gives it more seconds"),
    # The limit of a request during the run, and at its end.
    ("timed out", "check that `mlflow server` answers there; OTEL_RL_EXIT_TIMEOUT gives it more seconds at the end"),
    ("code: 4", "look at its log"),
)


@dataclass(frozen=True)
class MlflowDestination(Destination):
    """A tracking server."""

    def advice(self, reason: str, *, unopened: bool) -> str:
        """Return the fix to suggest when nothing arrives."""
        if unopened:
            return "its client could not be loaded in this process"
        return fix(reason)


def fix(reason: str) -> str:
    """Return what to do about the ``reason`` of a failed request."""
    known = next((words for pattern, words in _FIXES if re.search(pattern, reason)), "")
    return known or f"check that `mlflow server` answers there, or unset {server.TRACKING_URI} and OTEL_RL_MLFLOW"
