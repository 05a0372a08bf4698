"""A real Prometheus on loopback, set up as the stack sets it up, and a run that reports to it once."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from loopback_ports import free_ports
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from support.engine_metrics import ROUTER, SGLANG, VLLM, Engine

from dashboards.build import GENERATED
from dashboards.lib import collector
from dashboards.rules import logged, runs
from otel_rl.flight_recorder.recorder import NAME as FLIGHT_RECORDER
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.definitions import MetricDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RUN = "test-run"
DEFINITIONS = [value for value in vars(metrics).values() if isinstance(value, MetricDefinition)]

_CONFIGURATION = """
global: {evaluation_interval: 1s}
otlp:
  translation_strategy: UnderscoreEscapingWithSuffixes
  promote_resource_attributes: [rl.run.id, rl.rank, rl.role, otel_rl.collector.role]
storage: {tsdb: {out_of_order_time_window: 10m}}
rule_files: [rules/*.yaml]
"""
_START_SECONDS = 300
_COLLECTOR = GENERATED.parents[1] / "collector-config"
_COLLECTOR_FILES = ("common.yaml", "local.yaml", "sinks/lgtm.yaml", "overlays/engine-metrics.yaml")
#: More often than shipped: a rate needs two scrapes.
_SOON = "receivers::prometheus/engines::config::global::scrape_"


class Prometheus:
    """The server; a context manager that waits until it is ready and stops it at the end."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self.address = f"http://127.0.0.1:{free_ports(1)[0]}"

    def __enter__(self) -> Prometheus:  # noqa: PYI034  # typing.Self needs Python 3.11
        self._write_configuration()
        command = [
            self._program,
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self.address.removeprefix('http://')}",
            f"--web.external-url={self.address}",
            f"--web.user-assets={GENERATED.parent / 'runbooks'}",
            "--web.enable-otlp-receiver",
            "--enable-feature=exemplar-storage,created-timestamp-zero-ingestion",
        ]
        with (self._folder / "prometheus.log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)

    def _write_configuration(self) -> None:
        rules = self._folder / "rules"
        rules.mkdir()
        for path in (GENERATED / "prometheus").glob("*.yaml"):
            (rules / path.name).write_text(path.read_text().replace("interval: 30s", "interval: 1s"))
        (self._folder / "prometheus.yaml").write_text(_CONFIGURATION)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                urlopen(f"{self.address}/-/ready", timeout=5).close()  # our own server
            except (URLError, ConnectionError):  # polling
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.1)
            else:
                return

    def get(self, path: str, **parameters: str) -> Any:
        """The ``data`` of an answer of the HTTP API."""
        with urlopen(f"{self.address}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:  # our own server
            return json.load(answer)["data"]

    def query(self, text: str) -> list[dict[str, Any]]:
        """The series that ``text`` gives now."""
        result: list[dict[str, Any]] = self.get("query", query=text)["result"]
        return result

    def receive_run(self) -> None:
        """Every metric of the registry, from two ranks, each exported once, within a sampled span."""
        for rank in range(2):
            resource = Resource({attributes.RL_RUN_ID: RUN, attributes.RL_RANK: rank, attributes.RL_ROLE: "trainer"})
            self._receive(resource, DEFINITIONS)

    def receive_logged(self) -> None:
        """What a trainer logs without the pack, each input under one of its names; the job is named as the run."""
        names = [logged.logged_names(rule.name.removeprefix("rl:logged:"))[0] for rule in logged.LOGGED]
        gauges = [MetricDefinition(name, "gauge", "", "") for name in names]
        self._receive(Resource({"service.name": RUN, "service.instance.id": "trainer"}), gauges)

    def receive_collector(self) -> None:
        """Every metric of a collector that the boards name, exported once."""
        who = {"service.name": collector.SERVICE, "service.instance.id": "node-1:4317", collector.ROLE: "agent"}
        self._receive(Resource(who), collector.definitions())

    @contextmanager
    def with_engines(self, otelcol_rl: Path) -> Iterator[None]:
        """Scrape recorded engines for the run, through the real collector, as long as this lasts."""
        with ExitStack() as stack:
            vllm, sglang, router = (
                stack.enter_context(Engine(text, path))
                for text, path in ((VLLM, "/metrics"), (SGLANG, "/metrics"), (ROUTER, "/engine_metrics"))
            )
            listed = {
                "ENGINES": json.dumps([vllm.address, sglang.address]),
                "ENGINE_ROUTERS": json.dumps([router.address]),
                "ENGINE_RUN_ID": RUN,
            }
            process = self._collector(otelcol_rl, listed)
            stack.callback(process.wait, timeout=60)
            stack.callback(process.terminate)
            yield

    def _collector(self, otelcol_rl: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
        grpc, http, health, metrics_port = map(str, free_ports(4))
        own = {"GRPC_PORT": grpc, "HTTP_PORT": http, "METRICS_PORT": metrics_port, "PROMETHEUS_URL": self.address}
        own |= {"HEALTH_ENDPOINT": f"127.0.0.1:{health}", **variables}
        command = [str(otelcol_rl)]
        for file in _COLLECTOR_FILES:
            command += ["--config", str(_COLLECTOR / file)]
        for setting in ("interval", "timeout"):
            command += ["--config", f"yaml:{_SOON}{setting}: 1s"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        environ |= {f"OTEL_RL_COLLECTOR_{name}": value for name, value in own.items()}
        with (self._folder / "collector.log").open("wb") as log:
            return subprocess.Popen(command, cwd=self._folder, env=environ, stdout=log, stderr=log)

    def _receive(self, resource: Resource, definitions: Iterable[MetricDefinition]) -> None:
        exporter = OTLPMetricExporter(endpoint=f"{self.address}/api/v1/otlp/v1/metrics")
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
        provider = MeterProvider([reader], resource)
        meter = provider.get_meter("test")
        with TracerProvider().get_tracer("test").start_as_current_span("step"):
            for definition in definitions:
                _record(meter, definition)
        # Prometheus keeps milliseconds: a series must not end in the one in which it began.
        time.sleep(0.01)
        provider.shutdown()


def _record(meter: Any, definition: MetricDefinition) -> None:
    boundaries = {"explicit_bucket_boundaries_advisory": definition.boundaries} if definition.boundaries else {}
    create = {
        "counter": "create_counter",
        "gauge": "create_gauge",
        "histogram": "create_histogram",
        "updowncounter": "create_up_down_counter",
    }
    instrument = getattr(meter, create[definition.instrument])(definition.name, definition.unit, "", **boundaries)
    record = {"gauge": "set", "histogram": "record"}.get(definition.instrument, "add")
    values = {key: f"some {key}" for key in definition.attributes if key != attributes.ERROR_TYPE}
    if "folder" in values:
        values["folder"] = "queue"  # the one that rules look at by its name
    if attributes.SYSTEM_MEMORY_STATE in values:
        values[attributes.SYSTEM_MEMORY_STATE] = "used"  # the one that a panel shows
    if attributes.RL_TELEMETRY_INSTRUMENTOR in values:
        values[attributes.RL_TELEMETRY_INSTRUMENTOR] = FLIGHT_RECORDER  # likewise
    if attributes.RL_TELEMETRY_DROP_REASON in values:
        values[attributes.RL_TELEMETRY_DROP_REASON] = runs.UNDELIVERED[0]  # one that a rule counts
    if attributes.GEN_AI_TOKEN_TYPE in values:
        values[attributes.GEN_AI_TOKEN_TYPE] = attributes.GenAiTokenTypeValues.INPUT  # of which a panel shows a share
    # The bound of a queue lies above its size.
    getattr(instrument, record)(2 if definition is collector.QUEUE_CAPACITY else 1, values)
    if attributes.ERROR_TYPE in definition.attributes:
        getattr(instrument, record)(1, {**values, attributes.ERROR_TYPE: "timeout"})
