"""Sends spans to the server's own OTLP route, linked to the run."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_rl.trackers.mlflow.api import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_rl.pipeline.otlp_answer import OtlpAnswer
    from otel_rl.trackers.mlflow.api import MlflowApi
    from otel_rl.trackers.mlflow.run import MlflowRun

ROUTE = "/v1/traces"
EXPERIMENT, RUN = "x-mlflow-experiment-id", "x-mlflow-run-id"
PROTOBUF = {"content-type": "application/x-protobuf"}
_ENCODED = {**PROTOBUF, "content-encoding": "gzip"}
#: Text is repeated a lot; higher levels cost more than they save.
_LEVEL = 1


class TraceSender:
    """An exporter of spans; :attr:`answer` says what became of the latest batch."""

    def __init__(self, api: MlflowApi, run: MlflowRun) -> None:
        # At an export it may be too late to load it.
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans  # noqa: PLC0415

        self._encode = encode_spans
        self._api = api
        self._run = run
        self.answer: OtlpAnswer | None = None

    def export(self, batch: Sequence[ReadableSpan], **_: Any) -> OtlpAnswer:
        """Send ``batch``."""
        self.answer = None
        # First: an item that cannot be encoded is no matter of the server's.
        body = self._encode(batch).SerializeToString()
        self.answer = self._send(body)
        return self.answer

    def shutdown(self) -> None:
        """Finish the run where the process ends, and close the connection."""
        self._run.finish(self._api)
        self._api.close()

    def _send(self, body: bytes) -> OtlpAnswer:
        joined = self._run.join(self._api)
        # Without a run, but with an experiment, there are traces at least.
        if joined.is_outage or not self._run.experiment_id:
            return refusal(joined.reason) if joined.is_acceptance else joined
        headers = {**_ENCODED, EXPERIMENT: self._run.experiment_id}
        if self._run.id:
            headers[RUN] = self._run.id
        return located(self._api.send("POST", ROUTE, gzip.compress(body, _LEVEL), headers).answer)


def located(answer: OtlpAnswer) -> OtlpAnswer:
    """Return the answer to a request for spans; one without this route is an MLflow that is too old for them."""
    return replace(answer, reason=f"code: 404 at {ROUTE}") if answer.reason == "code: 404" else answer
