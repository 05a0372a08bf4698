"""Queues on disk of another version: the stock exporter's are drained by the durable one, and the other way round."""

from __future__ import annotations

from pathlib import Path

import yaml
from collector_process import CONFIGURATION, FILE_SINK, CollectorProcess, free_ports, wait_for
from otlp import log_resource, plain_value, value

STOCK = Path(__file__).parent / "stock-queue.yaml"
OLD_NAME = "exporter_otlp_grpc_gateway_logs"
NEW_NAME = "exporter_durable_otlp_grpc_gateway_1_logs"


def bodies(collector: CollectorProcess) -> list[object]:
    return [plain_value(record["body"]) for record in collector.log_records()]


def move_queue(otelcol_rl: Path, tmp_path: Path, before: str | Path, after: str | Path, names: tuple[str, str]) -> None:
    """Queue with one configuration for a dead gateway, rename the queue, and deliver with the other."""
    port = free_ports(1)[0]
    way = {"OTEL_RL_COLLECTOR_GATEWAY": f"127.0.0.1:{port}", "OTEL_RL_COLLECTOR_QUEUE_DIR": str(tmp_path / "queue")}
    for name in ("before", "after", "gateway"):
        (tmp_path / name).mkdir()
    with CollectorProcess(otelcol_rl, [before], tmp_path / "before", way) as collector:
        for number in range(5):
            collector.send("logs", [log_resource([{"body": value(f"record {number}")}])])
        assert collector.stop() == 0
    old, new = (tmp_path / "queue" / name for name in names)
    old.rename(new)
    listen = {"OTEL_RL_COLLECTOR_GRPC_PORT": str(port)}
    with (
        CollectorProcess(otelcol_rl, ["gateway.yaml", FILE_SINK], tmp_path / "gateway", listen) as gateway,
        CollectorProcess(otelcol_rl, [after], tmp_path / "after", way),
    ):
        wait_for(lambda: len(bodies(gateway)) >= 5, "the queued records")
        assert sorted(bodies(gateway)) == [f"record {number}" for number in range(5)]


def test_a_queue_of_the_stock_exporter_is_delivered_after_it_is_renamed(otelcol_rl: Path, tmp_path: Path):
    move_queue(otelcol_rl, tmp_path, STOCK, "agent.yaml", (OLD_NAME, NEW_NAME))


def test_a_queue_of_the_durable_exporter_can_go_back_to_the_stock_one(otelcol_rl: Path, tmp_path: Path):
    move_queue(otelcol_rl, tmp_path, "agent.yaml", STOCK, (NEW_NAME, OLD_NAME))


def test_the_durable_overlay_adds_only_the_queues_to_the_extensions_of_the_gateway():
    gateway, durable = (
        yaml.safe_load((CONFIGURATION / file).read_text()) for file in ("gateway.yaml", "overlays/durable.yaml")
    )
    assert durable["service"]["extensions"] == [*gateway["service"]["extensions"], "queue_storage"]


def test_the_durable_overlay_puts_every_queue_of_each_sink_on_disk():
    folder = CONFIGURATION / "overlays" / "durable"
    # The sink for files has no queue.
    for sink in sorted({*(CONFIGURATION / "sinks").glob("*.yaml")} - {CONFIGURATION / "sinks" / "file.yaml"}):
        own = folder / sink.name
        overlay = own if own.is_file() else folder / "http.yaml"
        exporters = yaml.safe_load(overlay.read_text().replace("SINK", sink.stem))["exporters"]
        assert exporters.keys() == yaml.safe_load(sink.read_text())["exporters"].keys()
        assert {each["sending_queue"]["storage"] for each in exporters.values()} == {"queue_storage"}
