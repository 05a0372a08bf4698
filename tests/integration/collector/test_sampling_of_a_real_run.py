"""A real run of two ranks through a gateway that keeps nothing of the rest: what the pack asks for is there, whole."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import urllib.request
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from collector_process import FILE_SINK, CollectorProcess, wait_for
from otlp import attributes
from sampled_traces import collectors, span_calls

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = """
import otel_rl
for iteration in (1, 2, 3):
    with otel_rl.step(iteration):
        with otel_rl.phase("sample"), otel_rl.tool("search"):
            pass
        with otel_rl.phase("checkpoint"):
            pass
        for number in range(4):
            with otel_rl.rollout(f"{iteration}-{number}", keep=number == 0), otel_rl.tool("calculator"):
                otel_rl.reward("exact_match", 1.0)
"""
#: What each rank records of a step beside the root.
OF_A_RANK = {"rl.rank.step", "rl.sample", "execute_tool search", "rl.checkpoint"}
WAYS = {
    "whole traces": ("gateway.yaml", FILE_SINK),
    "strict": ("gateway.yaml", FILE_SINK, "overlays/strict.yaml"),
}
PASSED_ON = ("Content-Type", "Content-Encoding")
#: All spans of the run.
TOTAL = 1 + 3 + 2 * 3 * (len(OF_A_RANK) + 4 * 2)


class Tee:
    """Takes what a run exports and sends each request on to every gateway; a context manager."""

    def __init__(self, gateways: list[CollectorProcess]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name: text for name in PASSED_ON if (text := self.headers.get(name))}
                for gateway in gateways:
                    url = f"http://127.0.0.1:{gateway.http_port}{self.path}"
                    urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=300).close()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Say nothing on the test's console."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Tee:  # noqa: PYI034  (typing.Self is newer than Python 3.10)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def run(endpoint: str, program: Path) -> None:
    """Two ranks of torchrun, which belong to one launch without a process group."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    scripts = Path(sys.executable).parent
    ours |= {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "OTEL_RL_RUN_ID": "real",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        # The third iteration is kept whole.
        "OTEL_RL_WHOLE_STEPS": "3",
    }
    command = [scripts / "opentelemetry-instrument", "torchrun", "--standalone", "--nproc-per-node=2", program]
    subprocess.run(command, env=ours, cwd=program.parent, check=True, timeout=600)


@pytest.fixture(scope="module")
def gateways(otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CollectorProcess]:
    """Two gateways that got the same run and have been stopped since: by their way to sample."""
    folder = tmp_path_factory.mktemp("real-run")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    share = {"OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "0"}
    with collectors(otelcol_rl, folder, *((files, share) for files in WAYS.values())) as started:
        with Tee(started) as tee:
            run(tee.url, program)
        for gateway in started:
            wait_for(lambda gateway=gateway: span_calls(gateway) == TOTAL, "every span is counted")
            gateway.stop()
    return dict(zip(WAYS, started, strict=True))


def rollouts(spans: list[dict]) -> Mapping[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for span in spans:
        if "rl.rollout.id" in attributes(span):
            found[attributes(span)["rl.rollout.id"]][span["name"]] += 1
    return found


@pytest.mark.parametrize("way", WAYS)
def test_steps_forced_rollouts_and_whole_iterations_of_two_ranks_are_there(
    gateways: dict[str, CollectorProcess], way: str
):
    left = gateways[way].spans()
    steps: dict[str, list[tuple[str, object]]] = defaultdict(list)
    for span in left:
        if "rl.rollout.id" not in attributes(span) and span["name"] != "rl.run":
            steps[span["traceId"]].append(span["name"])
    assert len(steps) == 3
    for names in steps.values():
        assert Counter(names) == Counter({"rl.loop": 1, **dict.fromkeys(OF_A_RANK, 2)})
    kept = {f"{iteration}-0" for iteration in (1, 2, 3)} | {f"3-{number}" for number in range(4)}
    assert rollouts(left) == {name: Counter({"rl.rollout": 2, "execute_tool calculator": 2}) for name in kept}
    assert [span["name"] for span in left].count("rl.run") == 1
