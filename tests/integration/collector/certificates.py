"""A certificate authority of a test's own, the files that it gives out, and TLS clients that trust it."""

from __future__ import annotations

import datetime as dt
import http.client
import ssl
from typing import TYPE_CHECKING, Any

import grpc
import trustme
from bad_input import EXPORT, JSON

if TYPE_CHECKING:
    from pathlib import Path

HOST = "127.0.0.1"
PREFIX = "OTEL_RL_COLLECTOR_"


class Authority:
    """One certificate authority; its files lie in a folder of the test."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self.file = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(self.file)

    def issue(self, name: str, *, expired: bool = False) -> tuple[Path, Path]:
        """Give out a certificate for the loopback interface; returns its file and that of its key, which is private."""
        yesterday = dt.datetime.now(dt.timezone.utc) - dt.timedelta(days=1)
        made = self._authority.issue_cert(HOST, "localhost", not_after=yesterday if expired else None)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        # Renewed like a program that renews certificates does it: by a rename, so that nobody reads half a file.
        for file, content in ((key, made.private_key_pem), (certificate, made.cert_chain_pems[0])):
            fresh = file.with_suffix(".new")
            fresh.touch(mode=0o600)
            content.write_to_path(fresh)
            fresh.rename(file)
        return certificate, key

    def receiver(self, name: str = "receiver", **changes: Any) -> dict[str, str]:
        """The variables of a collector whose receivers show a certificate of this authority."""
        certificate, key = self.issue(name, **changes)
        return {f"{PREFIX}TLS_CERT_FILE": str(certificate), f"{PREFIX}TLS_KEY_FILE": str(key)}

    def context(self, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """A client that trusts this authority, with a certificate of its own where it is given one."""
        context = ssl.create_default_context(cafile=str(self.file))
        if client is not None:
            context.load_cert_chain(*client)
        return context


def secret(folder: Path, name: str, content: str) -> str:
    """Write a file that only this user can read; returns its path."""
    file = folder / name
    file.touch(mode=0o600)
    file.write_text(content)
    return str(file)


def post_tls(port: int, context: ssl.SSLContext, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Send a trace request over HTTPS; returns the status, or 0 and the reason where no answer came."""
    connection = http.client.HTTPSConnection(HOST, port, timeout=300, context=context)
    try:
        connection.request("POST", "/v1/traces", body, {"Content-Type": JSON, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, repr(error)
    finally:
        connection.close()


def call_tls(
    port: str, credentials: grpc.ChannelCredentials, metadata: list[tuple[str, str]] | None = None
) -> tuple[str, str]:
    """Send an empty trace request over gRPC and TLS; returns the name of the status and the text of the answer."""
    with grpc.secure_channel(f"{HOST}:{port}", credentials) as channel:
        try:
            channel.unary_unary(EXPORT)(b"", timeout=300, metadata=metadata)
        except grpc.RpcError as error:
            return error.code().name, error.details() or ""
    return "OK", ""


def served_certificate(port: int, context: ssl.SSLContext) -> bytes:
    """The certificate that a receiver shows now, in DER."""
    connection = http.client.HTTPSConnection(HOST, port, timeout=300, context=context)
    try:
        connection.connect()
        found: bytes | None = connection.sock.getpeercert(binary_form=True)
        assert found
        return found
    finally:
        connection.close()
