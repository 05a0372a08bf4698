"""How long a process takes to end when the collector does not answer, against the official distro.

    python benchmarks/exit_with_dead_collector.py [--output FILE]

The program records one span and one metric and returns. ``refused``: nothing listens on the endpoint; ``mute``:
something accepts the connection and never answers. The figure is the time from the program's last statement to the end
of the process.
"""

from __future__ import annotations

import socket
import statistics
import sys
import tempfile
import time

from figures import finish, instrumented

ROUNDS = 3
PROGRAM = """
import time
from opentelemetry import metrics, trace
with trace.get_tracer("t").start_as_current_span("work"):
    metrics.get_meter("t").create_counter("c").add(1)
print(time.time(), flush=True)
"""


def _seconds_to_exit(endpoint: str, protocol: str, directory: str, variables: dict[str, str]) -> float:
    target = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    printed = instrumented("-c", PROGRAM, folder=directory, **target, **variables)
    return time.time() - float(printed.split()[-1])


def measure(directory: str) -> dict[str, list[float]]:
    """Seconds to exit by case."""
    official = {"OTEL_PYTHON_DISTRO": "distro", "OTEL_PYTHON_CONFIGURATOR": "configurator"}
    samples: dict[str, list[float]] = {}
    with socket.create_server(("127.0.0.1", 0)) as mute, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        endpoints = {
            "refused": f"http://127.0.0.1:{unused.getsockname()[1]}",
            "mute": f"http://127.0.0.1:{mute.getsockname()[1]}",
        }
        for name, endpoint in endpoints.items():
            for protocol in ("http/protobuf", "grpc"):
                case = f"{name}_{protocol.partition('/')[0]}"
                samples[f"ours_{case}"] = [_seconds_to_exit(endpoint, protocol, directory, {}) for _ in range(ROUNDS)]
        samples["official_refused_http"] = [
            _seconds_to_exit(endpoints["refused"], "http/protobuf", directory, official)
        ]
    return samples


def main() -> int:
    """Measure, print, and compare with the limit."""
    with tempfile.TemporaryDirectory() as directory:
        samples = measure(directory)
    figures = {
        f"seconds_{name}": {
            "value": round(statistics.median(values), 2),
            "judged": max(values),
            **({"limit": 2.0} if name.startswith("ours") else {}),
        }
        for name, values in samples.items()
    }
    return finish("exit_with_dead_collector", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
