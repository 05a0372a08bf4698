"""Serving a model with `transformers serve`, as the examples do."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

START_TIMEOUT_S = 600


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(server: subprocess.Popen, url: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"the model server ended with {server.returncode}:\n{log.read_text(errors='replace')[-2000:]}")
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - our own server
            return
        time.sleep(0.2)
    sys.exit(f"the model server was not ready after {START_TIMEOUT_S} s")


@contextlib.contextmanager
def served(model: Path) -> Iterator[str]:
    """Address of a server of the model in this folder, by the folder's name; it is stopped at the end."""
    port = free_port()
    log = model.parent / "server.log"
    transformers = Path(sys.executable).with_name("transformers")
    options = ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [transformers, "serve", model.name, *options],
            cwd=model.parent,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=output,
        )
        try:
            wait_until_healthy(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
