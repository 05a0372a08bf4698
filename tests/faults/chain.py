"""A chain under a test: agent, gateways, ledger. Its collectors can be killed and started again on what they left."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import shipped_settings
from integration.collector.collector_process import CollectorProcess

from otel_rl.collector.parts import gateways as generated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from ledger_process import Ledger

DURABLE_GATEWAY = ("gateway.yaml", "sinks/lgtm.yaml", "overlays/durable.yaml", "overlays/durable/lgtm.yaml")
STRICT_GATEWAY = (*DURABLE_GATEWAY, "overlays/strict.yaml")


class Collector(CollectorProcess):
    """A collector that a test may kill and start again: same ports, same folders, same environment."""

    def __init__(
        self, binary: Path, configurations: Sequence[str | Path], folder: Path, environment: dict[str, str]
    ) -> None:
        super().__init__(binary, configurations, folder, environment)
        self.grpc_port = int(self.environment["OTEL_RL_COLLECTOR_GRPC_PORT"])

    def start(self, wrapper: Sequence[str] = ()) -> None:
        """Start the process and wait until it is healthy."""
        self.launch(wrapper)
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def launch(self, wrapper: Sequence[str] = ()) -> None:
        """Start the process; `wrapper` is a command that runs it in its own process."""
        with (self.folder / "collector.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*wrapper, *self.command], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    def kill(self) -> None:
        """End the process as a crash would: SIGKILL, nothing is flushed."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def __exit__(self, *error: object) -> None:
        if self.process is not None:
            self.stop()

    @property
    def endpoint(self) -> str:
        """Where senders of OTLP/HTTP reach it."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def queue(self) -> Path:
        """The folder of its disk queues."""
        return self.folder / "queue"


class Chain:
    """Agent -> one or more gateways -> ledger."""

    def __init__(self, binary: Path, ledger: Ledger, folder: Path, stack: ExitStack) -> None:
        self.binary = binary
        self.ledger = ledger
        self.folder = folder
        self.stack = stack

    def collector(self, name: str, files: Sequence[str | Path], environment: dict[str, str]) -> Collector:
        """Return a collector that is not started yet; whatever becomes of it, it is stopped at the end of the test."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        made = Collector(self.binary, files, folder, environment)
        self.stack.push(made.__exit__)
        return made

    def gateway(self, number: int = 1, files: Sequence[str | Path] = STRICT_GATEWAY, **environment: str) -> Collector:
        """Return gateway `number`, not started yet: keeps every trace and sends to the ledger's backend."""
        backend = f"{self.ledger.backend}/gateway_{number}"
        names = ("TEMPO", "PROMETHEUS", "LOKI")
        quick = {
            "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "100",
            shipped_settings.SPAN_BUDGET: "0",
            shipped_settings.SPAN_METRICS_INTERVAL: "1s",
            **shipped_settings.flush_timeout("200ms"),
            **{f"OTEL_RL_COLLECTOR_{name}_URL": backend for name in names},
        }
        return self.collector(f"gateway_{number}", files, {**quick, **environment})

    def agent(self, gateways: Sequence[Collector], name: str = "agent", **environment: str) -> Collector:
        """Return an agent in front of these gateways, as ``--gateways N`` makes it; not started yet."""
        part = self.folder / f"gateways_{len(gateways)}.yaml"
        part.write_text("\n".join(source.text for source in generated.parts(len(gateways))))
        addresses = {
            variable: f"127.0.0.1:{gateway.grpc_port}"
            for variable, gateway in zip(generated.variables(len(gateways)), gateways, strict=True)
        }
        return self.collector(name, ["agent.yaml", part], {**addresses, **environment})
