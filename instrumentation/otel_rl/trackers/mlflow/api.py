"""One request to the tracking server and its reply."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from otel_rl.core import addresses, settings
from otel_rl.pipeline import otlp_answer
from otel_rl.pipeline.otlp_answer import OtlpAnswer, Outcome
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.trackers.mlflow.server import TrackingServer

ROUTE = "/api/2.0/mlflow/"
#: Seconds to connect, and to wait for an answer. The end of the process has a limit of its own.
_CONNECT, _ANSWER = 3.05, 10.0
_LONGEST_MESSAGE = 160
MISSING, EXISTS = "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"
#: What a server that is there and in trouble answers; MLflow says 500 while its database is locked.
_TROUBLE = 500


@dataclass(frozen=True)
class MlflowReply:
    """What became of a request, what it returned, MLflow's code of an error, and the beginning of the answer."""

    answer: OtlpAnswer
    body: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    text: str = ""

    @property
    def succeeded(self) -> bool:
        """True where the server has done what was asked for."""
        return self.answer.is_acceptance


class MlflowApi:
    """Requests to one server, over one connection. Used by one thread at a time."""

    def __init__(self, server: TrackingServer) -> None:
        import requests  # noqa: PLC0415 - loaded with the first request, as the OTLP exporter's

        self.server = server
        self._session = requests.Session()
        self._session.headers.update(server.headers)
        self._session.verify = server.verify
        self._session.cert = server.certificate
        if server.login is not None:
            self._session.auth = server.login

    def get(self, path: str, **query: str) -> MlflowReply:
        """Ask for something; without an answer it can be asked again."""
        return _repeatable(self._send("GET", ROUTE + path, params=query))

    def post(self, path: str, content: Mapping[str, Any]) -> MlflowReply:
        """Write something."""
        return self._send("POST", ROUTE + path, json=content)

    def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> MlflowReply:
        """Send ``body`` to a route outside of the REST API."""
        return self._send(method, path, data=body, headers=headers)

    def version(self) -> str:
        """Return the version of the server; empty where it does not say."""
        reply = self._send("GET", "/version")
        return reply.text if re.fullmatch(r"[\w.+-]{1,40}", reply.text) else ""

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _send(self, method: str, path: str, **options: Any) -> MlflowReply:
        if self.server.problem:
            return MlflowReply(refusal(self.server.problem))
        timeouts = (_CONNECT, _ANSWER)
        if lifecycle.is_ending:
            timeouts = (settings.current().exit_timeout,) * 2
        try:
            response = self._session.request(
                method, self.server.url + path, timeout=timeouts, allow_redirects=False, **options
            )
        except (OSError, ValueError) as error:  # the bases of what requests raises
            return MlflowReply(otlp_answer.of_exception(error))
        return _reply(response)


def refusal(reason: str) -> OtlpAnswer:
    """Return an answer that refuses for good."""
    return OtlpAnswer(Outcome.REFUSED, reason=reason)


def outage(reason: str) -> OtlpAnswer:
    """Return an answer after which the same may be tried later."""
    return OtlpAnswer(Outcome.RETRY, reason=reason)


def _repeatable(reply: MlflowReply) -> MlflowReply:
    return replace(reply, answer=outage(reply.answer.reason)) if reply.answer.is_silence else reply


def _reply(response: Any) -> MlflowReply:
    answer = otlp_answer.of_response(response, "traces")
    try:
        body = response.json() if response.content else {}
    except ValueError:
        body = {}
    body = body if isinstance(body, dict) else {}
    text = str(response.text[:_LONGEST_MESSAGE]).strip()
    if answer.is_acceptance:
        return MlflowReply(otlp_answer.ACCEPTED, body, text=text)
    code = str(body.get("error_code") or "")
    said = str(body.get("message") or body.get("detail") or ("" if body or text.startswith("<") else text))
    if answer.reason.startswith("code:") and (code or said):
        words = ", ".join(filter(None, (code, " ".join(said.split())[:_LONGEST_MESSAGE])))
        answer = replace(answer, reason=addresses.without_secrets(f"{answer.reason}, {words}"))
    if response.status_code == _TROUBLE:
        answer = replace(answer, outcome=Outcome.RETRY)
    return MlflowReply(answer, body, code, text)
