"""Sends one empty OTLP request per signal, through the exporter that a run would use, and names what is wrong.

The exporter brings its own address, headers, certificates, compression and proxy. An empty request is valid OTLP and
leaves nothing at the other end.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics.export import MetricsData

from otel_rl.cli.doctor import otlp_answers
from otel_rl.pipeline import exporter_selection, exporters

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 4.0
"""Seconds that a request may take, its retries among them."""

_CREDENTIAL_PROVIDER = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_{signal}CREDENTIAL_PROVIDER"


def send_all(requests: list[tuple[str, str]]) -> list[str]:
    """Send through the exporter of each (signal, exporter name), all at once; what is wrong with each, or ``""``."""
    if not requests:
        return []
    with _log_kept() as messages, ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda request: _send(request[0], request[1], messages), requests))


def _send(signal: str, name: str, messages: dict[int, str]) -> str:
    session: Any = None
    try:
        exporter_class: Any = exporters.load_class(signal, name)
        session = _session(signal) if name == exporter_selection.OTLP_HTTP else None
        exporter: Any = exporter_class(timeout=TIMEOUT, **({"session": session} if session is not None else {}))
    except Exception as error:  # noqa: BLE001 - a wrong value, a certificate that is not there, somebody's exporter
        return f"the exporter {name} cannot be opened: {type(error).__name__}: {error}"
    problem = _answer(exporter, signal, name, session, messages)
    try:
        exporter.shutdown()
    except Exception as error:  # noqa: BLE001 - as above; what the request met comes first
        return problem or f"the exporter {name} failed at its shutdown: {type(error).__name__}: {error}"
    return problem


def _answer(exporter: Any, signal: str, name: str, session: Any, messages: dict[int, str]) -> str:
    errors = _rpc_errors(exporter)
    try:
        accepted = _export(exporter, signal)
    except Exception as error:  # noqa: BLE001 - as above
        return f"the exporter {name} failed: {type(error).__name__}: {error}"
    if session is not None and session.outcome is not None:
        return otlp_answers.of_http(session.outcome, signal, proxied=session.proxied)
    if accepted:
        return ""
    if errors:
        return otlp_answers.of_grpc(errors[0].code().name, errors[0].details() or "", signal)
    return messages.get(threading.get_ident()) or "the exporter says that it failed"


def _rpc_errors(exporter: Any) -> list[Any]:
    """Collect the errors of a gRPC exporter's calls.

    Its log names a code once a minute only (``DuplicateFilter``, opentelemetry-exporter-otlp-proto-grpc 1.45.1). Its
    stub is the attribute ``_client`` from 1.44 on; where that changes, the list stays empty and the log has to do.
    """
    errors: list[Any] = []
    client = getattr(exporter, "_client", None)
    export = getattr(client, "Export", None)
    if export is None:
        return errors

    def remembering(*arguments: Any, **options: Any) -> Any:
        try:
            return export(*arguments, **options)
        except Exception as error:
            if hasattr(error, "code") and hasattr(error, "details"):
                errors.append(error)
            raise

    setattr(client, "Export", remembering)  # noqa: B010 - mypy knows no type of it
    return errors


def _export(exporter: Any, signal: str) -> bool:
    empty: Any = MetricsData(resource_metrics=[]) if signal == "metrics" else []
    return getattr(exporter.export(empty), "name", "") == "SUCCESS"


def _session(signal: str) -> Any:
    """Return a session that remembers its latest outcome; None where the user has a provider of sessions."""
    if any(os.environ.get(_CREDENTIAL_PROVIDER.format(signal=part)) for part in ("", f"{signal.upper()}_")):
        return None
    import requests  # noqa: PLC0415 - the exporter's own library, loaded with it

    class Remembering(requests.Session):
        #: A response, or the exception that came instead.
        outcome: Any = None
        proxied = False

        def request(self, *arguments: Any, **options: Any) -> Any:
            url = str(options.get("url") or arguments[1])
            try:
                self.proxied = bool(requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url)))
                self.outcome = super().request(*arguments, **options)
            except Exception as error:
                self.outcome = error
                raise
            return self.outcome

    return Remembering()


@contextmanager
def _log_kept() -> Iterator[dict[int, str]]:
    """Keep what the exporters log, by thread, and show none of it; gRPC's core prints nothing."""
    messages: dict[int, str] = {}

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread is not None:
                messages[record.thread] = record.getMessage()

    logger, handler = logging.getLogger("opentelemetry"), Keeping()
    propagated, verbosity = logger.propagate, os.environ.get("GRPC_VERBOSITY")
    logger.addHandler(handler)
    logger.propagate = False
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
        if verbosity is None:
            del os.environ["GRPC_VERBOSITY"]
