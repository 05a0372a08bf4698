"""What the stock components of this release do where otelcol-rl has one of its own.

Each test shows a stock component failing at what ours is for. A test that fails after an upgrade says that upstream
can do it now: replace our component, see docs/upstream.md.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from bad_input import PROTOBUF, nested_protobuf, post
from collector_process import CollectorProcess, free_ports, wait_for
from otlp import log_resource, span, trace_resource, value
from otlp_backend import OtlpBackend, Request

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).resolve().parents[3] / "docs" / "upstream.md"
QUEUE = "exporter_otlp_http__traces"


def stock(
    binary: Path,
    folder: Path,
    exporters: dict[str, Any],
    extensions: dict[str, Any] | None = None,
    logs: dict[str, Any] | None = None,
    processors: dict[str, Any] | None = None,
) -> CollectorProcess:
    """Return a collector of stock components: OTLP over HTTP in, for traces these processors, these exporters out."""
    folder.mkdir(exist_ok=True)
    extensions = {"health_check": {"endpoint": "${env:OTEL_RL_COLLECTOR_HEALTH_ENDPOINT}"}, **(extensions or {})}
    flow = {"receivers": ["otlp"], "exporters": list(exporters)}
    http = {"endpoint": "127.0.0.1:${env:OTEL_RL_COLLECTOR_HTTP_PORT}", "max_request_body_size": 32 << 20}
    configuration = {
        "extensions": extensions,
        "receivers": {"otlp": {"protocols": {"http": http}}},
        "processors": processors or {},
        "exporters": exporters,
        "service": {
            "extensions": list(extensions),
            "telemetry": {"metrics": {"level": "none"}, **({"logs": logs} if logs else {})},
            "pipelines": {"traces": {**flow, "processors": list(processors or {})}, "logs": flow},
        },
    }
    file = folder / "stock.yaml"
    file.write_text(yaml.safe_dump(configuration))
    return CollectorProcess(binary, [file], folder)


def otlp_http(backend: str, **more: Any) -> dict[str, Any]:
    return {"otlp_http": {"endpoint": backend, "compression": "none", **more}}


def nobody() -> str:
    return f"http://127.0.0.1:{free_ports(1)[0]}"


def answer(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def taken(collector: CollectorProcess, body: str) -> bool:
    try:
        collector.send("logs", [log_resource([{"body": value(body)}])])
    except urllib.error.HTTPError:
        return False
    return True


def of_the_page() -> bytes:
    """Return what the program in docs/upstream.md writes."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return subprocess.run([sys.executable, "-c", found[1]], capture_output=True, timeout=300, check=True).stdout


@pytest.mark.parametrize("body", [lambda: nested_protobuf(2_000_000), of_the_page], ids=["ours", "of the page"])
def test_without_request_guard_one_request_ends_the_process(
    otelcol_rl: Path, tmp_path: Path, body: Callable[[], bytes]
):
    with stock(otelcol_rl, tmp_path, {"nop": {}}) as collector:
        post(collector, body(), kind=PROTOBUF)
        assert collector.process is not None
        assert collector.process.wait(timeout=300) == 2
        assert "stack" in collector.log()


def test_without_request_guard_json_of_another_signal_is_answered_with_success_and_lost(
    otelcol_rl: Path, tmp_path: Path
):
    with OtlpBackend() as backend, stock(otelcol_rl, tmp_path, otlp_http(backend.url)) as collector:
        records = json.dumps({"resourceLogs": [log_resource([{"body": value("lost")}])]}).encode()
        status, _ = post(collector, records, path="/v1/traces")
        collector.send("traces", [trace_resource([span("after")])])
        wait_for(lambda: "after" in backend.taken, "the request after it")
        assert (status, backend.taken) == (200, ["after"])


def test_the_stock_budget_of_tail_sampling_keeps_other_traces_on_another_gateway(otelcol_rl: Path, tmp_path: Path):
    """Nor does one keep a part of what the other keeps: a rollout here, and the step that trained on it there."""
    budget = {"name": "budget", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 5}}
    sampling = {"tail_sampling": {"decision_wait": "1s", "policies": [budget]}}
    request = [trace_resource([span(f"rollout {number}", trace_id=f"{number + 1:032x}") for number in range(1000)])]
    kept = []
    for name in ("one", "two"):
        with (
            OtlpBackend() as backend,
            stock(otelcol_rl, tmp_path / name, otlp_http(backend.url), processors=sampling) as gateway,
        ):
            gateway.send("traces", request)
            wait_for(lambda taken=backend.taken: len(taken) >= 4, "the decisions")
            kept.append(set(backend.taken))
    assert not kept[0] <= kept[1]
    assert not kept[1] <= kept[0]


@pytest.mark.parametrize("include", [True, False])
def test_one_health_check_cannot_say_that_it_is_ready_and_that_a_backend_is_dead(
    otelcol_rl: Path, tmp_path: Path, include: bool
):
    """A backend that is away turns its only answer red, for whoever asks whether to send, or does not show in it."""
    exporter = {
        "durable_otlp_http": {"endpoint": nobody(), "unhealthy_after": "1ms", "dead_letter": {"directory": "d"}}
    }
    health = {
        "http": {"endpoint": "${env:OTEL_RL_COLLECTOR_HEALTH_ENDPOINT}", "status": {"enabled": True, "path": "/"}},
        "component_health": {"include_recoverable_errors": include, "recovery_duration": "1ms"},
        "use_v2": True,
    }
    process = stock(otelcol_rl, tmp_path, exporter, {"health_check": health})
    process.command.append("--feature-gates=extension.healthcheck.useComponentStatus")
    with process as collector:
        collector.send("traces", [trace_resource([span("late")])])
        wait_for(lambda: collector.log().count("waits in the queue") > 0, "the exporter to fail")
        if include:
            wait_for(lambda: answer(collector.health_url) == 500, "the dead backend to show")
        else:
            assert answer(collector.health_url) == 200


def test_self_export_of_logs_to_a_receiver_of_the_same_process_ends_with_an_error(otelcol_rl: Path, tmp_path: Path):
    to = {"protocol": "http/protobuf", "endpoint": "http://127.0.0.1:${env:OTEL_RL_COLLECTOR_HTTP_PORT}"}
    own = {"processors": [{"batch": {"exporter": {"otlp": {**to, "timeout": 1000}}}}]}
    with stock(otelcol_rl, tmp_path, {"nop": {}}, logs=own) as collector:
        assert collector.stop() == 1
        assert "failed to shutdown logger" in collector.log()


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
@pytest.mark.parametrize("recreate", [False, True])
def test_file_storage_with_a_damaged_queue_does_not_start(
    otelcol_rl: Path, tmp_path: Path, damage: str, recreate: bool
):
    storage = {"directory": str(tmp_path / "queue"), "create_directory": True, "fsync": True, "recreate": recreate}
    exporter = otlp_http(nobody(), sending_queue={"storage": "file_storage", "sizer": "bytes", "queue_size": 1 << 30})
    with stock(otelcol_rl, tmp_path / "one", exporter, {"file_storage": storage}) as collector:
        for number in range(50):
            collector.send("traces", [trace_resource([span(f"{number}", {"text": "x" * 20_000})])])
    with (tmp_path / "queue" / QUEUE).open("r+b") as file:
        if damage == "cut":
            file.truncate(64 << 10)
        else:
            file.write(b"\xff" * 2 * os.sysconf("SC_PAGE_SIZE"))
    again = stock(otelcol_rl, tmp_path / "two", exporter, {"file_storage": storage})
    with pytest.raises(AssertionError, match="ended at its start"), again:
        pass


def test_the_stock_exporter_drops_a_whole_request_for_one_item_that_is_refused(otelcol_rl: Path, tmp_path: Path):
    def refuse_one(request: Request) -> int:
        return 400 if "bad" in request.items else 200

    with (
        OtlpBackend(answer=refuse_one) as backend,
        stock(otelcol_rl, tmp_path, otlp_http(backend.url)) as collector,
    ):
        collector.send("traces", [trace_resource([span("good"), span("bad"), span("better")])])
        wait_for(lambda: "Dropping data" in collector.log(), "the exporter to give up")
        assert backend.taken == []


def test_an_exporter_that_fails_makes_the_sender_repeat_to_the_others(otelcol_rl: Path, tmp_path: Path):
    with OtlpBackend() as backend:
        exporters = {**otlp_http(backend.url), "file": {"path": "/dev/full"}}
        with stock(otelcol_rl, tmp_path, exporters) as collector:
            bodies = (f"{number} " + "x" * 20_000 for number in itertools.count())
            refused = next(body for body in bodies if not taken(collector, body))
            wait_for(lambda: refused in backend.taken, "the other exporter to have what the sender will send again")


def lines_of(file: Path) -> list[str]:
    """Return the bodies of the records in a file; "" for a line that cannot be read."""
    found = []
    for line in file.read_text(errors="replace").splitlines():
        try:
            resources = json.loads(line)["resourceLogs"]
        except ValueError:
            found.append("")
        else:
            found += [resources[0]["scopeLogs"][0]["logRecords"][0]["body"]["stringValue"]]
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of a bounded size needs the right to mount (root)")
@pytest.mark.parametrize(("exporter", "loses"), [("file", True), ("line_file", False)], ids=["stock", "ours"])
def test_after_a_full_disk_the_stock_file_exporter_writes_behind_half_a_line(
    otelcol_rl: Path, tmp_path: Path, exporter: str, loses: bool
):
    disk, rotation = tmp_path / "disk", {"max_megabytes": 8, "max_backups": 1}
    disk.mkdir()
    process = stock(otelcol_rl, tmp_path, {f"{exporter}/logs": {"path": f"{disk}/logs.jsonl", "rotation": rotation}})
    mount = 'mount -t tmpfs -o size=1m none "$0" && head -c 512k /dev/zero > "$0/filler" && exec "$@"'
    process.command = ["unshare", "--mount", "sh", "-c", mount, str(disk), *process.command]
    bodies = [f"{number} " + "x" * 100_000 for number in range(10)]
    with process as collector:
        acknowledged = [body for body in bodies if taken(collector, body)]
        assert len(acknowledged) < len(bodies)
        assert collector.process is not None
        seen = Path(f"/proc/{collector.process.pid}/root{disk}")
        (seen / "filler").unlink()
        assert taken(collector, "after")
        written = lines_of(seen / "logs.jsonl")
    assert ("" in written) == loses
    assert (written == [*acknowledged, "after"]) != loses


def test_two_stock_file_exporters_write_over_each_others_lines(otelcol_rl: Path, tmp_path: Path):
    exporter = {"file": {"path": str(tmp_path / "logs.jsonl"), "rotation": {"max_megabytes": 8, "max_backups": 1}}}
    with (
        stock(otelcol_rl, tmp_path / "one", exporter) as one,
        stock(otelcol_rl, tmp_path / "two", exporter) as two,
    ):
        bodies = [f"{number}" for number in range(6)]
        assert all(taken((one, two)[int(body) % 2], body) for body in bodies)
        assert len(lines_of(tmp_path / "logs.jsonl")) < len(bodies)
