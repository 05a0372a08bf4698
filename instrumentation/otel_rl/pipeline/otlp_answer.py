"""What the answer to an OTLP request says of the items that were sent: one judgment for all that sends OTLP.

Source: https://opentelemetry.io/docs/specs/otlp/#otlpgrpc-response and #otlphttp-response. Neither ``requests`` nor
``grpc`` is imported: whoever has an answer of theirs has loaded them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

from otel_rl.core import addresses


class Outcome(Enum):
    """What became of the items of one request."""

    #: The destination has them.
    ACCEPTED = "accepted"
    #: It has taken the request, and rejected some or all of the items for good.
    REJECTED = "rejected"
    #: It has none of them, and may take them later: an outage.
    RETRY = "retry"
    #: It has none of them, and would refuse them again.
    REFUSED = "refused"
    #: They were sent, and no answer came: it may have them.
    UNANSWERED = "unanswered"


@dataclass(frozen=True)
class OtlpAnswer:
    """The outcome, the number of rejected items, why, and the seconds that the destination asks to wait for."""

    outcome: Outcome
    rejected: int = 0
    reason: str = ""
    retry_after: float = 0.0

    @property
    def is_acceptance(self) -> bool:
        """True where the destination has taken the request; it may have rejected some of the items."""
        return self.outcome in (Outcome.ACCEPTED, Outcome.REJECTED)

    @property
    def is_outage(self) -> bool:
        """True where the same items may be accepted later."""
        return self.outcome is Outcome.RETRY

    @property
    def is_silence(self) -> bool:
        """True where the destination may have the items, or not."""
        return self.outcome is Outcome.UNANSWERED

    @property
    def is_final(self) -> bool:
        """True where the destination has said what it makes of the items, for good."""
        return not (self.is_outage or self.is_silence)


ACCEPTED = OtlpAnswer(Outcome.ACCEPTED)
LOGIN_PAGE = "answered with an HTML page: is a login in front of it?"
REDIRECT = "answered with a redirect"
_LONGEST = 160
_OVERLOADED = frozenset({429, 502, 503, 504})
_OUTAGES = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "OUT_OF_RANGE", "DATA_LOSS"})
_SILENCE = frozenset({"DEADLINE_EXCEEDED", "CANCELLED"})
#: gRPC's words on a message beyond a limit, which is ``RESOURCE_EXHAUSTED`` too and stays so however often it is sent.
_TOO_LARGE = "larger than max"
_REJECTED_FIELDS = {"traces": "rejected_spans", "metrics": "rejected_data_points", "logs": "rejected_log_records"}
_ITEMS = {"traces": "spans", "metrics": "metric points", "logs": "log records"}
#: What the system or TLS said, within gRPC's list of all addresses and layers.
_CAUSE = re.compile(
    "Connection refused|Connection reset|Socket closed|[Tt]imed? ?out|No route to host|Network is unreachable"
    "|Failed parsing HTTP/2|http1.x server|CERTIFICATE_VERIFY_FAILED[^:]*|Peer name .* is not in peer certificate"
    "|WRONG_VERSION_NUMBER"
)
#: Most exceptions that are followed to the innermost one.
_MAXIMUM_CAUSES = 16


def of_response(response: Any, signal: str) -> OtlpAnswer:
    """Judge a ``requests.Response`` to a request with items of ``signal``."""
    status: int = response.status_code
    redirects = [earlier for earlier in response.history if earlier.is_redirect]
    if redirects and response.request.method != "POST":
        # requests has followed it with GET: what was sent stayed behind.
        return _redirect(redirects[0])
    if 300 <= status < 400:  # noqa: PLR2004 - the classes of HTTP
        return _redirect(response)
    if not 200 <= status < 300:  # noqa: PLR2004
        reason = f"code: {status}"
        outcome = Outcome.RETRY if status in _OVERLOADED else Outcome.REFUSED
        return OtlpAnswer(outcome, reason=reason, retry_after=_retry_after(response))
    content_type, body = str(response.headers.get("content-type", "")).lower(), response.content or b""
    if "html" in content_type or re.match(rb"\s*<(!doctype\s+)?html", body[:_LONGEST], re.IGNORECASE):
        return OtlpAnswer(Outcome.REFUSED, reason=LOGIN_PAGE)
    return _of_json(body, signal) if "json" in content_type else _of_protobuf(body, signal)


def of_message(message: Any, signal: str) -> OtlpAnswer:
    """Judge an ``Export<Signal>ServiceResponse``."""
    partial = getattr(message, "partial_success", None)
    rejected = int(getattr(partial, _REJECTED_FIELDS[signal], 0) or 0)
    return _rejected(rejected, str(getattr(partial, "error_message", "")), signal)


def of_exception(error: Exception) -> OtlpAnswer:
    """Judge what ``requests`` raised instead of an answer."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    innermost = _innermost(error)
    reason = cause(error)
    if "ReadTimeout" in kinds or "ReadTimeout" in type(innermost).__name__ or "ContentDecodingError" in kinds:
        return OtlpAnswer(Outcome.UNANSWERED, reason=reason)
    is_outage = bool(kinds & {"ConnectionError", "ConnectTimeout"}) and not isinstance(error, ValueError)
    return OtlpAnswer(Outcome.RETRY if is_outage else Outcome.REFUSED, reason=reason)


def of_status(code: str, details: str) -> OtlpAnswer:
    """Judge a gRPC status that is not ``OK``, by its name and details."""
    known = _CAUSE.search(details)
    reason = known[0] if known else _short(f"{code}: {details}" if details else code)
    if code in _SILENCE:
        return OtlpAnswer(Outcome.UNANSWERED, reason=reason)
    is_outage = code in _OUTAGES and _TOO_LARGE not in details
    return OtlpAnswer(Outcome.RETRY if is_outage else Outcome.REFUSED, reason=reason)


def cause(error: BaseException) -> str:
    """Return what the operating system or the TLS library said: the outer errors quote the whole address."""
    innermost = _innermost(error)
    said = getattr(innermost, "strerror", None) or str(innermost) or type(innermost).__name__
    return _short(str(said))


def _innermost(error: BaseException) -> BaseException:
    for _ in range(_MAXIMUM_CAUSES):
        inside = (getattr(error, "reason", None), *error.args, error.__cause__)
        inner = next((one for one in inside if isinstance(one, BaseException)), None)
        if inner is None:
            break
        error = inner
    return error


def _redirect(response: Any) -> OtlpAnswer:
    target = addresses.without_credentials(str(response.headers.get("location", "")))
    return OtlpAnswer(
        Outcome.REFUSED, reason=_short(f"{REDIRECT} ({response.status_code}{f' to {target}' if target else ''})")
    )


def _retry_after(response: Any) -> float:
    """Return the seconds of ``Retry-After``; a date is left to the sender's own interval."""
    text = str(response.headers.get("retry-after", "")).strip()
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _of_protobuf(body: bytes, signal: str) -> OtlpAnswer:
    if not body:
        return ACCEPTED
    try:
        message = _message_type(signal).FromString(body)
    except Exception:  # noqa: BLE001 - protobuf's own error for a body of somebody's own, such as "ok"
        return ACCEPTED
    return of_message(message, signal)


def _message_type(signal: str) -> Any:
    # Loaded with the exporter already.
    if signal == "traces":
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
            ExportTraceServiceResponse,
        )

        return ExportTraceServiceResponse
    if signal == "metrics":
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (  # noqa: PLC0415
            ExportMetricsServiceResponse,
        )

        return ExportMetricsServiceResponse
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse  # noqa: PLC0415

    return ExportLogsServiceResponse


def _of_json(body: bytes, signal: str) -> OtlpAnswer:
    try:
        partial = json.loads(body or b"{}").get("partialSuccess") or {}
        field = _REJECTED_FIELDS[signal].title().replace("_", "")
        rejected = int(partial.get(field[0].lower() + field[1:]) or 0)
        message = str(partial.get("errorMessage") or "")
    except (ValueError, TypeError, AttributeError):
        return ACCEPTED
    return _rejected(rejected, message, signal)


def _rejected(rejected: int, message: str, signal: str) -> OtlpAnswer:
    if rejected <= 0:
        return ACCEPTED
    said = f": {message}" if message else ""
    return OtlpAnswer(Outcome.REJECTED, rejected, _short(f"it rejected {_ITEMS[signal]}{said}"))


def _short(text: str) -> str:
    return addresses.without_secrets(" ".join(text.split()))[:_LONGEST]
