"""Real servers of products, on loopback and in a folder of the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopback_ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Where environments.py has put them.
FOLDER = Path(os.environ.get("OTEL_RL_SINKS", "/nowhere"))
#: Phoenix's first start makes its database, which takes minutes on a loaded machine.
READY_SECONDS = 600


def ask(url: str, content: dict[str, Any] | None = None) -> Any:
    """Return the answer to one request: GET, or POST of ``content``."""
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def listening(process: int) -> set[str]:
    """Addresses on which a process and its children listen, as hexadecimal numbers of the kernel."""
    family = {process}
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) in family:
                family.add(int(entry.name))
        except OSError:
            continue
    inodes = set()
    for each in family:
        for file in Path(f"/proc/{each}/fd").glob("*"):
            try:
                inodes.add(str(file.readlink()).removeprefix("socket:[").removesuffix("]"))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].partition(":")[0])
    return found


@contextmanager
def running(command: Sequence[str | Path], folder: Path, ready: str, **environment: str) -> Iterator[int]:
    """Run a server until the end of the block; yield its process when the address answers."""
    folder.mkdir(exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**clean, **environment}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _await(process, ready)
            yield process.pid
        finally:
            # Its workers too.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _await(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
        else:
            return
    raise AssertionError(f"{process.args} was not ready in time")


class Server:
    """A server: its URL and its process."""

    def __init__(self, url: str, process: int) -> None:
        self.url = url
        self.process = process

    def ask(self, path: str, content: dict[str, Any] | None = None) -> Any:
        """Return the answer of its API."""
        return ask(self.url + path, content)


@contextmanager
def phoenix(folder: Path) -> Iterator[Server]:
    """Phoenix over SQLite, without its gRPC port."""
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = {"PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port), "PHOENIX_WORKING_DIR": str(folder)}
    settings |= {"PHOENIX_TELEMETRY_ENABLED": "false", "HOME": str(folder)}
    command = [FOLDER / "phoenix" / "bin" / "python", Path(__file__).with_name("phoenix_on_loopback.py"), "serve"]
    with running(command, folder, f"{url}/healthz", **settings) as process:
        yield Server(url, process)


@contextmanager
def mlflow(folder: Path) -> Iterator[Server]:
    """MLflow over SQLite."""
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    options = ["--backend-store-uri", f"sqlite:///{folder}/m.db", "--port", str(port), "--workers", "1"]
    artifacts = ["--artifacts-destination", str(folder / "artifacts"), "--host", "127.0.0.1"]
    command = [FOLDER / "mlflow" / "bin" / "mlflow", "server", *options, *artifacts]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with running(command, folder, f"{url}/health", **quiet) as process:
        yield Server(url, process)


@contextmanager
def zipkin(folder: Path) -> Iterator[Server]:
    """Zipkin in memory."""
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = ["java", "-Xmx256m", "-jar", FOLDER / "zipkin.jar", "--armeria.ports[0].ip=127.0.0.1"]
    options = [f"--armeria.ports[0].port={port}", "--armeria.ports[0].protocols[0]=http"]
    with running([*command, *options], folder, f"{url}/health") as process:
        yield Server(url, process)
