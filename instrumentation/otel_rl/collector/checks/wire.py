"""Checks of what travels in plaintext, and of secrets that are written into a configuration itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_rl.collector.checks.structure import identifiers
from otel_rl.collector.parts.merge import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOOPBACK = re.compile(r"^(localhost|127\.[\d.]+|\[?::1\]?)$", re.IGNORECASE)
_SECRET_SETTINGS = {"token", "tokens", "password", "inline", "key_pem"}
_SECRET_HEADER = re.compile(r"authorization|token|secret|api-?key|team$", re.IGNORECASE)
_URL = re.compile(r"[a-z]+://", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?:[a-z]+:/+)?[^/?#\s]*@", re.IGNORECASE)
_SECRET_QUERY = re.compile(r"[?&][^=&\s]*(?:token|key|secret|password|sig|auth)[^=&\s]*=[^&\s]", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|file):")


def plaintext(actual: Mapping[str, Any], *, encrypted: bool) -> Iterator[str]:
    """Report credentials that leave this machine or are asked for in plaintext; with TLS chosen, all other data too.

    ``actual`` contains no variables. The loopback interface is no wire.
    """
    for receiver, endpoint, authenticated in plain_receivers(actual):
        if authenticated:
            yield (
                f"{receiver} asks for credentials on {endpoint} without TLS, where everybody on the way reads them; "
                "add --with tls (agent: --with receiver-tls), or set OTEL_RL_COLLECTOR_LISTEN to 127.0.0.1"
            )
        elif encrypted:
            yield (
                f"{receiver} listens on {endpoint} without TLS; add --with receiver-tls, or set "
                "OTEL_RL_COLLECTOR_LISTEN to 127.0.0.1"
            )
    for exporter, endpoint, authenticated in _plain_exporters(actual):
        if authenticated or encrypted:
            what = "credentials" if authenticated else "everything"
            fix = "write https:// into its URL" if "://" in endpoint else "add --with tls, or set tls.insecure to false"
            yield f"{exporter} sends {what} to {endpoint} without TLS; {fix}"


def inline_secrets(configuration: Mapping[str, Any]) -> Iterator[str]:
    """Report secrets in the text of a configuration: every printed copy would show them."""
    for section in ("extensions", "receivers", "exporters"):
        found = [*_secrets(configuration.get(section), section), *_in_addresses(configuration.get(section), section)]
        for path, value in found:
            if value and not _REFERENCE.search(value):
                yield (
                    f"{path} holds a secret itself, which every printed configuration shows; write it to a file and "
                    "name that (filename, password_file, htpasswd.file), or refer to it as ${env:NAME} or ${file:PATH}"
                )


def _in_addresses(section: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the URLs and endpoints with an account before the host, or with a secret in their query."""
    for here, key, value in leaves(section, path):
        for text in value if isinstance(value, list) else [value]:
            is_address = isinstance(text, str) and (key.endswith("endpoint") or _URL.match(text))
            if is_address and (_ACCOUNT.match(text) or _SECRET_QUERY.search(text)):
                yield here, text


def plain_receivers(actual: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield each receiver that other machines reach without TLS: its name, its address, whether it asks who sends."""
    for receiver, given in identifiers(actual, "receivers").items():
        protocols = given.get("protocols") if isinstance(given, dict) else None
        for protocol, server in (protocols or {}).items():
            settings = server or {}
            endpoint = str(settings.get("endpoint", ""))
            if not settings.get("tls") and endpoint and not _on_this_machine(endpoint):
                yield f"{receiver} {protocol}", endpoint, bool(settings.get("auth"))


def _plain_exporters(actual: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    for exporter, given in identifiers(actual, "exporters").items():
        for client in _clients(given):
            endpoint = str(client.get("endpoint") or "its addresses")
            http, authenticated = endpoint.startswith("http://"), bool(client.get("auth"))
            insecure = http or bool((client.get("tls") or {}).get("insecure"))
            # gRPC sends no credentials in plaintext, to this machine neither: the exporter would not start.
            if insecure and (not _on_this_machine(endpoint) or (authenticated and not http)):
                yield exporter, endpoint, authenticated


def _clients(exporter: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the settings of the connections: of the exporter itself, or of the OTLP exporter in load_balancing."""
    if isinstance(exporter, dict):
        inner = (exporter.get("protocol") or {}).get("otlp") if isinstance(exporter.get("protocol"), dict) else None
        if inner is not None:
            yield inner
        elif "endpoint" in exporter:
            yield exporter


def _on_this_machine(endpoint: str) -> bool:
    address = endpoint.partition("://")[2] or endpoint
    return endpoint.startswith("unix:") or bool(_LOOPBACK.match(address.partition("/")[0].rpartition(":")[0]))


def _secrets(section: Any, path: str) -> Iterator[tuple[str, str]]:
    for here, key, value in leaves(section, path):
        is_header = here.removesuffix(f".{key}").endswith("headers") and _SECRET_HEADER.search(key)
        for text in value if isinstance(value, list) else [value]:
            if (key in _SECRET_SETTINGS or is_header) and isinstance(text, str):
                yield here, text
