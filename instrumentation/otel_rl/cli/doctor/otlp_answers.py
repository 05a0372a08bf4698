"""What an answer to an OTLP request means, and how to mend it: one sentence each, ``""`` where all is well."""

from __future__ import annotations

import os
import re
from typing import Any

from otel_rl.core import addresses
from otel_rl.pipeline import otlp_answer

_LONGEST = 200
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_TO_HTTP = "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or send to the gRPC port, mostly 4317"
_TO_GRPC = "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or send to the HTTP port, mostly 4318"
_CERTIFICATE_VARIABLE = "OTEL_EXPORTER_OTLP_CERTIFICATE"
_CERTIFICATE = f"set {_CERTIFICATE_VARIABLE} to the file of the authority that signed the server's certificate"
#: Variables of ``requests`` for its authorities.
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_CLIENT = "set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY"
_PROXY = "correct HTTP_PROXY or HTTPS_PROXY, or name the collector's host in NO_PROXY"
_UNAUTHENTICATED = f"wants credentials; set {_HEADERS}, for example to authorization=Bearer%20TOKEN"
_FORBIDDEN = "knows these credentials and does not let them write {signal}; use others in " + _HEADERS
_NO_SUCH_PATH = (
    "takes no OTLP at this path; OTEL_EXPORTER_OTLP_ENDPOINT is an address without /v1/{signal},"
    " OTEL_EXPORTER_OTLP_{SIGNAL}_ENDPOINT one with it"
)
_NO_POST = (
    "takes no POST there, so it is no OTLP receiver but perhaps a web page or an API; a collector's OTLP port is mostly"
    " 4318 (HTTP) or 4317 (gRPC)"
)
_BUSY = "is overloaded or not ready; look at its log and its memory limit"
_HTTP = {
    400: "says that the request is malformed; check that the endpoint is an OTLP receiver and https is not missing",
    401: _UNAUTHENTICATED,
    403: _FORBIDDEN,
    404: _NO_SUCH_PATH,
    405: _NO_POST,
    407: "stands behind a proxy that wants credentials; put them into HTTPS_PROXY (http://user:password@host:port)",
    413: "refuses requests of this size; raise its limit",
    415: f"does not take protobuf; {_TO_GRPC}, or check that it is an OTLP receiver",
    429: _BUSY,
}
_GRPC = {
    "UNAUTHENTICATED": _UNAUTHENTICATED,
    "PERMISSION_DENIED": _FORBIDDEN,
    "UNIMPLEMENTED": "speaks gRPC and takes no OTLP {signal}; enable them in its OTLP receiver, or correct the port",
    "DEADLINE_EXCEEDED": "gives no answer in time; check that it is an OTLP/gRPC receiver, and https or http",
    "RESOURCE_EXHAUSTED": _BUSY,
    "UNAVAILABLE": "does not answer; start a collector there, or unset OTEL_EXPORTER_OTLP_ENDPOINT to write files",
}
#: Status and text of an answer of MLflow's OTLP route, which takes spans only where the request names an experiment.
_MLFLOW = {
    (400, "Invalid OpenTelemetry format - no spans found"): "",
    (
        422,
        "x-mlflow-experiment-id",
    ): f"is MLflow and wants an experiment; add x-mlflow-experiment-id=0 to {_HEADERS}",
    (403, "Invalid Host header"): "refuses this name of the host; start `mlflow server` with --allowed-hosts HOST:PORT",
}
_OTHER_NAME = "has a certificate for another name; use that name in the endpoint"
_UNTRUSTED = f"has a certificate that is not trusted here; {_CERTIFICATE}"
_UNREACHABLE = "start a collector there, or unset OTEL_EXPORTER_OTLP_ENDPOINT to write files"
#: Text of an error -> what it means; the first one that is found.
_TEXTS = (
    (r"http1\.x server|HTTP/1\.|SETTINGS frame", f"speaks HTTP and not gRPC; {_TO_HTTP}"),
    (r"WRONG_VERSION_NUMBER|wrong version number|record layer failure", "speaks no TLS; begin the endpoint with http://"),
    (r"Hostname mismatch|doesn't match|Peer name .* is not in peer certificate", _OTHER_NAME),
    (r"CERTIFICATE_VERIFY_FAILED|certificate verify failed", _UNTRUSTED),
    (r"CERTIFICATE_REQUIRED|certificate required|bad certificate", f"wants a client certificate; {_CLIENT}"),
    (r"Socket closed|reset by peer", "closes the connection; where it speaks TLS, begin the endpoint with https://"),
    (r"[Hh]andshake|SSL|TLS", f"and this process do not agree on TLS; {_CERTIFICATE}"),
)  # fmt: skip
#: Of a value with which nothing is sent; what ``requests`` says of it quotes the value.
_INVALID = {
    "InvalidHeader": f"was not asked: a value of {_HEADERS} is no valid header; it holds a line break perhaps",
    "InvalidProxyURL": f"was not asked: the address of the proxy is none; {_PROXY}",
}
_INVALID_ADDRESS = "is no address that a request can be sent to; write it as http://HOST:PORT or https://HOST:PORT"
_HTTP_STATUS = re.compile(r"http2 header with status: (\d{3})")
_OVER_HTTPS = re.compile("HTTPS? (server|port)|plain HTTP request", re.IGNORECASE)
_SYSTEM = re.compile(r"(?:\[(?:Errno -?\d+|SSL[^\]]*)\] |(?=Tunnel connection failed))([^'\")(\n]+)")
#: ``requests`` 2.34, ``adapters.HTTPAdapter.cert_verify``.
_MISSING_FILE = re.compile(r"^Could not find .*invalid path: (.+)$")
_BINARY_ANSWER = re.compile(r"BadStatusLine|RemoteDisconnected|Connection aborted|Connection reset|InvalidHeader")


def of_http(outcome: Any, signal: str, *, proxied: bool = False) -> str:
    """Explain a response of ``requests``, or the exception that came instead; ``proxied``: it came from a proxy."""
    if isinstance(outcome, Exception):
        return _of_exception(outcome)
    sentence = _of_response(outcome, signal)
    return f"{sentence}; the answer came through a proxy: {_PROXY}" if sentence and proxied else sentence


def _of_response(outcome: Any, signal: str) -> str:
    status: int = outcome.status_code
    answer = otlp_answer.of_response(outcome, signal)
    if answer.outcome is otlp_answer.Outcome.ACCEPTED:
        return ""
    if answer.outcome is otlp_answer.Outcome.REJECTED:
        return f"takes the request, but {answer.reason}"
    if answer.reason == otlp_answer.LOGIN_PAGE:
        return f"answers with a web page ({status}), so it is no OTLP receiver; {_NO_POST.rpartition('; ')[2]}"
    if answer.reason.startswith(otlp_answer.REDIRECT):
        redirect = outcome.history[0].status_code if outcome.history else status
        return f"redirects ({redirect}), which no exporter follows; set the endpoint to the address it leads to"
    if status == 400 and _OVER_HTTPS.search(outcome.text[:_LONGEST]):  # noqa: PLR2004
        return "speaks TLS (400); begin the endpoint with https://"
    mlflow = (meaning for (code, text), meaning in _MLFLOW.items() if code == status and text in outcome.text)
    return next(mlflow, _of_status(status, signal))


def of_grpc(code: str, details: str, signal: str) -> str:
    """Explain a gRPC status and its details."""
    over_http = _HTTP_STATUS.search(details)
    if over_http is not None and int(over_http[1]) in _HTTP:
        return _of_status(int(over_http[1]), signal)
    known = _GRPC.get(code, "refuses the request")
    if code in ("UNAVAILABLE", "UNKNOWN", "INTERNAL"):
        known = "is behind a proxy that refuses; " + _PROXY if re.search("[Pp]roxy", details) else _text(details, known)
    detail = f": {_short(addresses.without_secrets(details))}" if details else ""
    return f"{_filled(known, signal)} ({code}{detail})"


def _of_status(status: int, signal: str) -> str:
    sentence = _HTTP.get(status, _BUSY if status >= 500 else "refuses the request")  # noqa: PLR2004
    subject, _, fix = _filled(sentence, signal).partition(";")
    return f"{subject} ({status}){f';{fix}' if fix else ''}"


def _of_exception(error: Exception) -> str:
    kind, text = type(error).__name__, str(error)
    if kind == "ProxyError":
        return f"is reached through a proxy that does not let the request pass ({_cause(error)}); {_PROXY}"
    if "Timeout" in kind:
        return "gives no answer in time; check that it is an OTLP/HTTP receiver, or the firewall"
    unsent = _unsent(error)
    if unsent:
        return unsent
    if kind == "SSLError":
        return f"{_text(text, 'and this process do not agree on TLS')}{_ca_bundle()} ({_cause(error)})"
    if _BINARY_ANSWER.search(text):
        return (
            f"does not speak HTTP ({_cause(error)}); {_TO_GRPC}; where it speaks TLS, begin the endpoint with https://"
        )
    return f"does not answer ({_cause(error)}); {_UNREACHABLE}"


def _unsent(error: Exception) -> str:
    """Explain why no request was sent; empty where one was."""
    missing = _MISSING_FILE.search(str(error))
    if missing is not None:
        variable = next((name for name in _BUNDLES if os.environ.get(name) == missing[1]), _CERTIFICATE_VARIABLE)
        return f"was not asked: the certificate file {missing[1]} is not there; correct {variable}"
    return _INVALID.get(type(error).__name__, _INVALID_ADDRESS) if isinstance(error, ValueError) else ""


def _ca_bundle() -> str:
    """Name the variable that wins over the exporter's own certificate: github.com/psf/requests/issues/3829."""
    variable = next((name for name in _BUNDLES if os.environ.get(name)), None)
    return "" if variable is None else f", and unset {variable}, which wins over it"


def _text(details: str, otherwise: str) -> str:
    return next((meaning for pattern, meaning in _TEXTS if re.search(pattern, details)), otherwise)


def _cause(error: Exception) -> str:
    """Return what the operating system or the TLS library said: the rest may quote headers and the whole address."""
    match = _SYSTEM.search(str(error))
    return _short(match[1]) if match is not None else type(error).__name__


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."


def _filled(sentence: str, signal: str) -> str:
    return sentence.replace("{signal}", signal).replace("{SIGNAL}", signal.upper())
