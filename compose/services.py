"""The four programs of the stack: their ports, how they are built and started, and how to tell that they are ready."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CONFIGURATION = ROOT / "collector-config"


@dataclass(frozen=True)
class Port:
    """A TCP port on the loopback interface and the environment variable that moves it."""

    variable: str
    default: int


PORTS = {
    "collector_grpc": Port("OTEL_RL_COLLECTOR_GRPC_PORT", 4317),
    "collector_http": Port("OTEL_RL_COLLECTOR_HTTP_PORT", 4318),
    "collector_health": Port("OTEL_RL_STACK_HEALTH_PORT", 13133),
    "collector_metrics": Port("OTEL_RL_COLLECTOR_METRICS_PORT", 8888),
    "prometheus": Port("OTEL_RL_STACK_PROMETHEUS_PORT", 9090),
    "tempo": Port("OTEL_RL_STACK_TEMPO_PORT", 3200),
    "tempo_otlp": Port("OTEL_RL_STACK_TEMPO_OTLP_PORT", 4418),
    "tempo_grpc": Port("OTEL_RL_STACK_TEMPO_GRPC_PORT", 9096),
    "loki": Port("OTEL_RL_STACK_LOKI_PORT", 3100),
    "loki_grpc": Port("OTEL_RL_STACK_LOKI_GRPC_PORT", 9097),
}


@dataclass(frozen=True)
class Service:
    """One program: its command line and the address that answers 200 when it is ready."""

    name: str
    command: list[str]
    ready_url: str


def build(script: Path, *arguments: str) -> Path:
    """Run a build script, which shows its progress on stderr, and return the path that it printed last.

    Raises:
        subprocess.CalledProcessError: the build failed; the script has said why.
    """
    answer = subprocess.run([sys.executable, script, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return Path(answer.stdout.splitlines()[-1])


def environment_of(ports: Mapping[str, int], data: Path) -> dict[str, str]:
    """Return the variables by which the configuration files learn of the ports and of the data folder."""
    local = "http://127.0.0.1"
    return {
        **{PORTS[name].variable: str(port) for name, port in ports.items()},
        "OTEL_RL_STACK_DATA_DIR": str(data),
        "OTEL_RL_COLLECTOR_HEALTH_ENDPOINT": f"127.0.0.1:{ports['collector_health']}",
        "OTEL_RL_COLLECTOR_DEAD_LETTER_DIR": str(data / "collector-dead-letter"),
        "OTEL_RL_COLLECTOR_PROMETHEUS_URL": f"{local}:{ports['prometheus']}",
        "OTEL_RL_COLLECTOR_TEMPO_URL": f"{local}:{ports['tempo_otlp']}",
        "OTEL_RL_COLLECTOR_LOKI_URL": f"{local}:{ports['loki']}",
    }


def services(ports: Mapping[str, int], data: Path, settings: Mapping[str, str] | None = None) -> list[Service]:
    """Build what is not built yet and return the programs in the order of their start.

    Args:
        ports: port by name.
        data: folder of the programs' data.
        settings: settings of the collector's files by path, ``processors::batch::timeout``, with their values in YAML.
    """
    local = "http://127.0.0.1"
    backends = {name: build(HERE / "backends" / "build.py", name) / name for name in ("prometheus", "tempo", "loki")}
    collector = [str(build(ROOT / "otelcol-builder" / "build.py"))]
    for file in ("common.yaml", "gateway.yaml", "sinks/lgtm.yaml"):
        collector += ["--config", str(CONFIGURATION / file)]
    for path, value in (settings or {}).items():
        collector += ["--config", f"yaml:{path}: {value}"]
    prometheus = [
        str(backends["prometheus"]),
        f"--config.file={HERE / 'prometheus.yml'}",
        f"--storage.tsdb.path={data / 'prometheus'}",
        "--storage.tsdb.retention.time=30d",
        f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
        f"--web.external-url={local}:{ports['prometheus']}",
        f"--web.user-assets={ROOT / 'dashboards' / 'runbooks'}",
        "--web.enable-otlp-receiver",
        "--enable-feature=exemplar-storage,created-timestamp-zero-ingestion",
    ]
    return [
        Service("prometheus", prometheus, f"{local}:{ports['prometheus']}/-/ready"),
        *(
            Service(
                name,
                [str(backends[name]), f"-config.file={HERE / name}.yaml", "-config.expand-env=true"],
                f"{local}:{ports[name]}/ready",
            )
            for name in ("tempo", "loki")
        ),
        Service("otelcol-rl", collector, f"{local}:{ports['collector_health']}/"),
    ]
