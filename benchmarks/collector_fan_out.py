"""Three sinks of one collector at 5,000 spans a second, one of them dead all the time: what each has in the end.

    python benchmarks/collector_fan_out.py [--seconds 600] [--rate 5000] [--memory-limit 512] [--output FILE]

A collector of role local, with its files and its default memory limit, sends to Opik (through the filter for LLM
products), to Jaeger (every span) and to Phoenix (filtered, nobody listens). All three are receivers of this program.
Half of the spans belong to rollouts. At the end Phoenix comes back and takes what its queue still holds. Each receiver
knows every span by its number: the ledgers of the sound ones have to be complete and without duplicates, and for the
dead one what came and what the collector counted as dropped has to be all of it.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import sys
import tempfile
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collector_process import Collector, binary, free_ports
from figures import finish
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_rl.collector import composed
from otel_rl.collector.parts import choices

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

SPANS_OF_A_REQUEST = 500
PADDING = "x" * 400
_GZIP = 31
_QUIET_SECONDS = 10.0
"""Longer than any retry of an exporter waits."""
_DROPPED = "otelcol_exporter_overflow_dropped_items"
_SINKS = {"opik": "filtered, sound", "jaeger": "all spans, sound", "phoenix": "filtered, dead"}


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--memory-limit", type=int, default=512, help="MiB")
    return parser.parse_known_args()[0]


class Receiver:
    """A receiver of OTLP/HTTP in a process of its own, which knows the numbers of the spans it has."""

    def __init__(self, port: int, most: int) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_serve, args=(port, most, theirs), daemon=True)
        self._process.start()

    def account(self) -> tuple[bytes, int]:
        """Return how often each number has come, 2 for more often, and the number of spans."""
        self._ours.send("account")
        return self._ours.recv()  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.join()


def _serve(port: int, most: int, orders: Connection) -> None:
    came, total, lock = bytearray(most), [0], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            message = ExportTraceServiceRequest.FromString(zlib.decompress(body, _GZIP))
            with lock:
                for resource in message.resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            number = int.from_bytes(span.span_id, "big") - 1
                            came[number] = min(2, came[number] + 1)
                            total[0] += 1
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while orders.recv():
        with lock:
            orders.send((bytes(came), total[0]))


class Load:
    """One request whose spans get new numbers each time; those with an even number belong to rollouts."""

    def __init__(self) -> None:
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = "train"
        scope = resource.scope_spans.add()
        scope.scope.name = "otel_rl.api"
        now = time.time_ns()
        for place in range(SPANS_OF_A_REQUEST):
            is_call = place % 2 == 0
            span = scope.spans.add(
                trace_id=_mark(b"trace", place, 16),
                span_id=_mark(b"span", place, 8),
                name="chat tiny" if is_call else "rl.train",
                kind=3 if is_call else 1,
                start_time_unix_nano=now - 1_000_000,
                end_time_unix_nano=now,
            )
            values = {"rl.rollout.id": f"rollout-{place // 8}", "gen_ai.operation.name": "chat"} if is_call else {}
            for key, value in {**values, "gen_ai.request.model": "tiny", "note": PADDING}.items():
                span.attributes.add(key=key).value.string_value = value
        self._body = bytearray(request.SerializeToString())
        self._spans = [self._body.index(_mark(b"span", place, 8)) for place in range(SPANS_OF_A_REQUEST)]
        self._traces = [self._body.index(_mark(b"trace", place, 16)) for place in range(SPANS_OF_A_REQUEST)]

    def numbered(self, first: int) -> bytes:
        """Return the request with these numbers; an id is its number and one, since 0 is no id."""
        for place, at in enumerate(self._spans):
            self._body[at : at + 8] = (first + place + 1).to_bytes(8, "big")
        for place, at in enumerate(self._traces):
            self._body[at : at + 16] = ((first + place) // 8 + 1).to_bytes(16, "big")
        return bytes(self._body)


def _mark(kind: bytes, place: int, length: int) -> bytes:
    return (b"\xff" + kind + place.to_bytes(2, "big")).ljust(length, b"\xff")


def send(port: int, seconds: float, rate: int, collector: Collector) -> dict[str, Any]:
    """Send at the rate; a request that the collector refuses is sent again."""
    load, connection = Load(), http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    sent, refusals, longest, most_memory = 0, 0, 0.0, 0.0
    begin = time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        due = begin + sent / rate
        if now < due:
            time.sleep(due - now)
        body, asked = load.numbered(sent), time.perf_counter()
        while True:
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                break
            refusals += 1
            time.sleep(0.1)
        longest = max(longest, time.perf_counter() - asked)
        sent += SPANS_OF_A_REQUEST
        if sent % (rate * 5) < SPANS_OF_A_REQUEST:
            most_memory = max(most_memory, collector.resident_mebibytes())
    took = time.perf_counter() - begin
    return {
        "sent": sent,
        "spans_per_second": sent / took,
        "refusals": refusals,
        "longest_request_seconds": longest,
        "most_mebibytes": most_memory,
    }


def ledger(name: str, receiver: Receiver, sent: int) -> dict[str, Any]:
    """Compare what has come with what had to."""
    came, total = receiver.account()
    expected = range(0, sent, 1 if name == "jaeger" else 2)
    wrong = 0 if name == "jaeger" else sum(map(bool, came[1:sent:2]))
    return {
        "expected": len(expected),
        "received": total,
        "missing": sum(not came[number] for number in expected),
        "duplicates": sum(each > 1 for each in came),
        "not_for_it": wrong,
    }


def run(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Send, let the dead one come back, and return the ledgers."""
    most = int(chosen.seconds * chosen.rate * 1.1) + 10 * SPANS_OF_A_REQUEST
    ports = dict(zip(_SINKS, free_ports(len(_SINKS)), strict=True))
    words = [f"{name}=http://127.0.0.1:{port}" for name, port in ports.items()]
    file = folder / "collector.yaml"
    file.write_text(composed.compose(choices.select(choices.LOCAL, words), None).text)
    receivers = {name: Receiver(port, most) for name, port in ports.items() if name != "phoenix"}
    limit = str(chosen.memory_limit)
    variables = {
        "OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB": limit,
        "GOMEMLIMIT": f"{limit}MiB",  # as `otel-rl collector run` sets it
        "OTEL_RL_COLLECTOR_DEAD_LETTER_DIR": str(folder / "letters"),
    }
    with Collector(binary(), [file], folder / "collector", variables) as collector:
        before = collector.cpu_seconds()
        sending = send(collector.http_port, chosen.seconds, chosen.rate, collector)
        sending["cpu_microseconds_per_span"] = (collector.cpu_seconds() - before) / sending["sent"] * 1e6
        receivers["phoenix"] = Receiver(ports["phoenix"], most)
        known, since = -1, time.monotonic()
        while time.monotonic() < since + _QUIET_SECONDS:
            time.sleep(1)
            total = sum(receiver.account()[1] for receiver in receivers.values())
            known, since = (total, time.monotonic()) if total != known else (known, since)
        found = {name: ledger(name, receiver, sending["sent"]) for name, receiver in receivers.items()}
        for name, each in found.items():
            each["dropped_and_counted"] = collector.metric(_DROPPED, f'exporter="durable_otlp_http/{name}"')
    for receiver in receivers.values():
        receiver.stop()
    return {"sending": sending, "ledgers": found}


def figures(outcome: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the figures with their limits: the sound sinks lose nothing, and each loss of the dead one is counted."""
    found: dict[str, dict[str, Any]] = {}
    for name, each in outcome["ledgers"].items():
        for key in ("expected", "received", "dropped_and_counted"):
            found[f"{name}_{key}"] = {"value": each[key]}
        uncounted = each["missing"] - each["dropped_and_counted"]
        found[f"{name}_missing_and_not_counted"] = {"value": uncounted, "limit": 0}
        found[f"{name}_duplicates"] = {"value": each["duplicates"], "limit": 0}
        found[f"{name}_not_for_it"] = {"value": each["not_for_it"], "limit": 0}
        if name != "phoenix":
            found[f"{name}_dropped_and_counted"]["limit"] = 0
    for key, value in outcome["sending"].items():
        found[key] = {"value": round(value, 3)}
    return found


def main() -> int:
    """Measure, print, and compare with the limits."""
    chosen = options()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(chosen, Path(folder))
    command = f"python benchmarks/collector_fan_out.py --seconds {chosen.seconds:g} --rate {chosen.rate}"
    samples = {"command": f"{command} --memory-limit {chosen.memory_limit}", "sinks": _SINKS, **outcome}
    return finish("collector_fan_out", figures(outcome), samples, (__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
