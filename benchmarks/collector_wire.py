"""CPU of a collector for TLS, client certificates and tokens: a request on a kept connection, and a new connection.

    python benchmarks/collector_wire.py [--output FILE]

Each arrangement is a collector of role local, composed by the command. All run at the same time and take turns, so
that each round compares neighbours in time. A turn sends small traces over OTLP/HTTP and counts the CPU seconds of the
collector's process, so what the client computes is not in the figure.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import trustme
from collector_process import Collector, binary
from figures import bootstrap, finish

from otel_rl.collector.composed import compose
from otel_rl.collector.parts import choices

ROUNDS = 7
REQUESTS = {True: 600, False: 200}
"""In a turn, on a kept connection or with a new one for each."""
ARRANGEMENTS = {
    "plaintext": [],
    "TLS": ["tls"],
    "mutual TLS": ["tls", "mutual-tls"],
    "TLS and token": ["tls", "token"],
}
_TOKEN = base64.urlsafe_b64encode(bytes(range(32))).decode()


def _body() -> bytes:
    span = {"traceId": "5b" * 16, "spanId": "5b" * 8, "name": "rl.rank.step", "kind": 1}
    scope = {"scope": {"name": "benchmark"}, "spans": [span]}
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}).encode()


class Measured:
    """One arrangement: its collector, and the client that it takes."""

    def __init__(self, program: Path, name: str, folder: Path, authority: trustme.CA, stack: ExitStack) -> None:
        folder.mkdir()
        issued = authority.issue_cert("127.0.0.1")
        contents = {
            "TLS_CERT_FILE": issued.cert_chain_pems[0].bytes(),
            "TLS_KEY_FILE": issued.private_key_pem.bytes(),
            "TLS_CLIENT_CA_FILE": authority.cert_pem.bytes(),
            "TOKEN_FILE": _TOKEN.encode(),
        }
        variables = {}
        for variable, content in contents.items():
            file = folder / variable
            file.touch(mode=0o600)
            file.write_bytes(content)
            variables[f"OTEL_RL_COLLECTOR_{variable}"] = str(file)
        configuration = folder / "configuration.yaml"
        configuration.write_text(compose(choices.select("local", options=ARRANGEMENTS[name]), None).text)
        self.collector = stack.enter_context(Collector(program, [configuration], folder, variables))
        self._context: ssl.SSLContext | None = None
        if "tls" in ARRANGEMENTS[name]:
            self._context = ssl.create_default_context(cafile=variables["OTEL_RL_COLLECTOR_TLS_CLIENT_CA_FILE"])
            self._context.load_cert_chain(folder / "TLS_CERT_FILE", folder / "TLS_KEY_FILE")
        self.turns: dict[bool, list[float]] = {True: [], False: []}

    def turn(self, *, kept: bool) -> float:
        """Send the requests of a turn; the microseconds of the collector's CPU for each."""
        before, connection = self.collector.cpu_seconds(), self._connection()
        for _ in range(REQUESTS[kept]):
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {_TOKEN}"}
            connection.request("POST", "/v1/traces", _body(), headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.client.OK:
                raise SystemExit(f"the collector answered {answer.status}")
            if not kept:
                connection.close()
                connection = self._connection()
        connection.close()
        return (self.collector.cpu_seconds() - before) / REQUESTS[kept] * 1e6

    def _connection(self) -> http.client.HTTPConnection:
        port = self.collector.http_port
        if self._context is None:
            return http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=self._context)


def measure(folder: Path) -> dict[str, dict[bool, list[float]]]:
    """Take turns; the microseconds of each turn, by arrangement and by whether connections are kept."""
    program, authority = binary(), trustme.CA()
    with ExitStack() as stack:
        measured = {
            name: Measured(program, name, folder / str(number), authority, stack)
            for number, name in enumerate(ARRANGEMENTS)
        }
        for number in range(ROUNDS + 1):
            for one in measured.values():
                for kept, turns in one.turns.items():
                    microseconds = one.turn(kept=kept)
                    if number:  # the first round warms up
                        turns.append(microseconds)
        return {name: one.turns for name, one in measured.items()}


def main() -> int:
    """Measure, print, and write where ``--output`` says."""
    with tempfile.TemporaryDirectory() as folder:
        turns = measure(Path(folder))
    figures: dict[str, Any] = {}
    for name, by_kind in turns.items():
        for kept, values in by_kind.items():
            what = "a request on a kept connection" if kept else "a request on a new connection"
            figures[f"{name}: microseconds of CPU for {what}"] = bootstrap(values, statistics.median)
    samples = {name: {str(kept): values for kept, values in by_kind.items()} for name, by_kind in turns.items()}
    return finish("collector_wire", figures, samples, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
