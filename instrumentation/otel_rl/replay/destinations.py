"""OTLP over HTTP and gRPC, with the address, headers, certificates and time limits of the standard variables.

Not the exporters: they take objects of the SDK and keep the answers to themselves.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry.util.re import parse_env_headers

from otel_rl.core import __version__
from otel_rl.pipeline import exporter_selection, otlp_answer
from otel_rl.pipeline.otlp_answer import OtlpAnswer, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.replay.batches import Batch

DEFAULT_TIMEOUT = 10.0
_USER_AGENT = f"otel-rl-replay/{__version__}"
#: What gRPC says where no connection was made.
_NOT_CONNECTED = ("failed to connect", "Connection refused", "DNS resolution failed", "Name resolution")
#: What the system and gRPC say where nothing listens, or no host has the name.
_NOT_LISTENING = ("Connection refused", "NameResolutionError", "DNS resolution failed", "Name resolution")
#: What gRPC says of the answer of a server that speaks HTTP/1.
_HTTP_1 = ("Failed parsing HTTP/2", "http1.x server", "SETTINGS frame")


@dataclass(frozen=True)
class Reply:
    """What became of one request.

    Attributes:
        answer: the judgment.
        may_have_arrived: True where it was sent and the judgment does not say that the destination has none of it.
        raw: the response, or the exception that came instead.
        is_unreachable: True where the system says at once that nothing listens there.
        is_other_protocol: True where what listens there speaks another protocol, which no waiting changes.
    """

    answer: OtlpAnswer
    may_have_arrived: bool
    raw: Any
    is_unreachable: bool = False
    is_other_protocol: bool = False


class OtlpSettings:
    """What the variables say for one signal; its own ones come before those for all."""

    def __init__(self, environ: Mapping[str, str], signal: str) -> None:
        self._environ = environ
        self._signal = signal

    def text(self, name: str) -> str:
        """Return the value of ``OTEL_EXPORTER_OTLP_<SIGNAL>_<NAME>`` or ``OTEL_EXPORTER_OTLP_<NAME>``."""
        own = self._environ.get(f"OTEL_EXPORTER_OTLP_{self._signal.upper()}_{name}", "").strip()
        return own or self._environ.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()

    @property
    def headers(self) -> dict[str, str]:
        """Headers of each request."""
        return dict(parse_env_headers(self.text("HEADERS"), liberal=True))

    @property
    def timeout(self) -> float:
        """Seconds for one request, as the exporters read them."""
        try:
            return float(self.text("TIMEOUT")) or DEFAULT_TIMEOUT
        except ValueError:
            return DEFAULT_TIMEOUT

    @property
    def is_compressed(self) -> bool:
        """True where requests leave with gzip."""
        return self.text("COMPRESSION").lower() == "gzip"

    @property
    def is_secure(self) -> bool:
        """True where gRPC goes over TLS, for an address without a scheme."""
        return self.text("INSECURE").lower() != "true"

    @property
    def address(self) -> str:
        """The address of the signal; over HTTP with its path."""
        return exporter_selection.endpoint(self._environ, self._signal) or ""

    @property
    def url(self) -> str:
        """The address over HTTP: one for all signals gets the path of the signal."""
        own = self._environ.get(f"OTEL_EXPORTER_OTLP_{self._signal.upper()}_ENDPOINT", "").strip()
        address, separator, query = self.address.partition("?")
        return own or f"{address.rstrip('/')}/v1/{self._signal}{separator}{query}"


class HttpDestination:
    """One signal over HTTP."""

    def __init__(self, settings: OtlpSettings) -> None:
        import requests  # noqa: PLC0415 - one of the two is needed

        self._errors = requests.RequestException
        self._not_connected = requests.exceptions.ConnectTimeout
        self._settings = settings
        self._session = requests.Session()
        self._session.headers.update(
            {"User-Agent": _USER_AGENT, "Content-Type": "application/x-protobuf", **settings.headers}
        )
        self._session.verify = settings.text("CERTIFICATE") or True
        certificate = settings.text("CLIENT_CERTIFICATE"), settings.text("CLIENT_KEY")
        self._session.cert = certificate if all(certificate) else certificate[0] or None

    def send(self, batch: Batch) -> Reply:
        """Send one request and judge the answer."""
        body, headers = batch.request.SerializeToString(), {}
        if self._settings.is_compressed:
            body, headers = gzip.compress(body), {"Content-Encoding": "gzip"}
        try:
            response = self._session.post(
                self._settings.url,
                data=body,
                headers=headers,
                timeout=self._settings.timeout,
                # What was posted would stay behind: requests follows with GET.
                allow_redirects=False,
            )
        except (self._errors, OSError) as error:
            return self._failed(error)
        answer = otlp_answer.of_response(response, batch.signal)
        return Reply(answer, may_have_arrived=False, raw=response)

    def _failed(self, error: Exception) -> Reply:
        answer = otlp_answer.of_exception(error)
        text = repr(error)
        is_unsent = isinstance(error, (self._not_connected, ValueError)) or any(
            words in text for words in ("NewConnectionError", "NameResolutionError", "SSLError", "ProxyError")
        )
        return Reply(
            answer,
            not is_unsent and answer.outcome is not Outcome.REFUSED and "BadStatusLine" not in text,
            error,
            is_unreachable=any(words in text for words in _NOT_LISTENING),
            # The begin of an answer is no status of HTTP.
            is_other_protocol="BadStatusLine" in text,
        )

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


class GrpcDestination:
    """One signal over gRPC."""

    def __init__(self, settings: OtlpSettings, signal: str) -> None:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - one of the two is needed

        self._error = grpc.RpcError
        self._settings = settings
        address = settings.address if "://" in settings.address else f"//{settings.address}"
        parts = urlsplit(address)
        is_secure = parts.scheme == "https" or (not parts.scheme and settings.is_secure)
        options = [("grpc.primary_user_agent", _USER_AGENT)]
        compression = grpc.Compression.Gzip if settings.is_compressed else grpc.Compression.NoCompression
        if is_secure:
            files = [settings.text(name) for name in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE")]
            read = [Path(file).read_bytes() if file else None for file in files]
            self._channel = grpc.secure_channel(parts.netloc, grpc.ssl_channel_credentials(*read), options, compression)
        else:
            self._channel = grpc.insecure_channel(parts.netloc, options, compression)
        self._export = _stub(signal, self._channel).Export

    def send(self, batch: Batch) -> Reply:
        """Send one request and judge the answer."""
        metadata = tuple((key.lower(), value) for key, value in self._settings.headers.items())
        try:
            message = self._export(batch.request, metadata=metadata, timeout=self._settings.timeout)
        except self._error as error:
            answer = otlp_answer.of_status(error.code().name, error.details() or "")
            is_connected = not any(words in (error.details() or "") for words in _NOT_CONNECTED)
            may_have_arrived = answer.outcome is Outcome.UNANSWERED or (
                error.code().name == "UNAVAILABLE" and is_connected
            )
            return Reply(
                answer,
                may_have_arrived,
                error,
                is_unreachable=any(words in (error.details() or "") for words in _NOT_LISTENING),
                is_other_protocol=any(words in (error.details() or "") for words in _HTTP_1),
            )
        return Reply(otlp_answer.of_message(message, batch.signal), may_have_arrived=False, raw=message)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


def _stub(signal: str, channel: Any) -> Any:
    if signal == "traces":
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub  # noqa: PLC0415

        return TraceServiceStub(channel)  # type: ignore[no-untyped-call]
    if signal == "metrics":
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (  # noqa: PLC0415
            MetricsServiceStub,
        )

        return MetricsServiceStub(channel)  # type: ignore[no-untyped-call]
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub  # noqa: PLC0415

    return LogsServiceStub(channel)  # type: ignore[no-untyped-call]


def open_destination(environ: Mapping[str, str], signal: str, exporter: str) -> HttpDestination | GrpcDestination:
    """Return the destination of ``signal`` by the name of the exporter that would be used.

    Raises:
        OSError: a certificate cannot be read.
    """
    settings = OtlpSettings(environ, signal)
    if exporter == exporter_selection.OTLP_GRPC:
        return GrpcDestination(settings, signal)
    return HttpDestination(settings)
