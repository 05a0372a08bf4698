"""A real collector scrapes a real vLLM, a real SGLang and its router: the names that boards and rules are made of."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from engine_runs import ROOT, attributes, environment
from loopback_ports import free_ports
from support.otlp_servers import http_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 120
RUN = "engines"
FILES = ("common.yaml", "local.yaml", "overlays/engine-metrics.yaml")
SOON = "receivers::prometheus/engines::config::global::scrape_"
PROMPT = list(range(5, 40))
#: What needs two servers, another way for the weights, or an event that a test cannot cause here.
NOT_HERE = ("nixl", "mooncake", "kv_transfer", "failed", "retracted", "aborted", "cached_tokens", "rl_weight")


@contextmanager
def scraping(folder: Path, **listed: str) -> Iterator[Path]:
    """A collector that writes what it scrapes of these to the file that this returns."""
    built = subprocess.run(
        [sys.executable, ROOT / "otelcol-builder" / "build.py"], stdout=subprocess.PIPE, text=True, check=True
    )
    command = [built.stdout.splitlines()[-1]]
    for file in FILES:
        command += ["--config", str(ROOT / "collector-config" / file)]
    for setting in ("interval", "timeout"):
        command += ["--config", f"yaml:{SOON}{setting}: 2s"]
    grpc, http, health, own = map(str, free_ports(4))
    variables = {"GRPC_PORT": grpc, "HTTP_PORT": http, "METRICS_PORT": own, "HEALTH_ENDPOINT": f"127.0.0.1:{health}"}
    variables |= {"DATA_DIR": str(folder), "ENGINE_RUN_ID": RUN, **listed}
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(folder, **{f"OTEL_RL_COLLECTOR_{name}": value for name, value in variables.items()}),
            stdout=log,
            stderr=log,
        )
    try:
        yield folder / "metrics.jsonl"
    finally:
        process.terminate()
        process.wait(SECONDS)


def scraped(file: Path) -> list[tuple[dict[str, Any], str]]:
    """Resource and name of each metric that is not the collector's own."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    groups = [group for line in lines if line.endswith("\n") for group in json.loads(line)["resourceMetrics"]]
    found = [
        (attributes(group["resource"]), metric["name"])
        for group in groups
        for scope in group["scopeMetrics"]
        for metric in scope["metrics"]
    ]
    return [(resource, name) for resource, name in found if resource["service.name"] != "otelcol-rl"]


def expected(engine: str, *, routed: bool = False) -> set[str]:
    """The names of an engine in boards and rules that one server has after some requests."""
    from dashboards.lib import engines
    from dashboards.lib.names import prometheus_name

    found = {
        prometheus_name(engines.routed(metric) if routed else metric)
        for metric in engines.definitions()
        if metric.name.startswith(f"{engine}:") and not any(word in metric.name for word in NOT_HERE)
    }
    assert len(found) > 6
    return found


def wait_for_names(file: Path, address: str, engine: str, names: set[str]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        who = {"service.name": engine, "service.instance.id": address, "rl.run.id": RUN, "rl.role": "engine"}
        found = {name for resource, name in scraped(file) if resource == who}
        if names <= found:
            return
        assert time.monotonic() < deadline, (names - found, {json.dumps(resource) for resource, _ in scraped(file)})
        threading.Event().wait(0.5)


def post(url: str, **body: Any) -> None:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        answer.read()


def test_a_real_vllm_has_every_name(tmp_path, model):
    pytest.importorskip("vllm")
    from vllm_server import Served

    with http_server() as receiver:
        server = Served(tmp_path / "server", model, receiver, watched=False)
        try:
            server.wait_until_it_answers()
            address = server.url.removeprefix("http://")
            with scraping(tmp_path / "collector", ENGINES=f"[{address}]") as file:
                post(f"{server.url}/v1/completions", model="tiny", prompt=PROMPT, max_tokens=4)
                wait_for_names(file, address, "vllm", expected("vllm"))
        finally:
            server.stop()


def test_a_real_sglang_has_every_name_directly_and_behind_its_router(tmp_path, model):
    pytest.importorskip("sglang")
    pytest.importorskip("sglang_router")
    from sglang_server import Router, Served

    with http_server() as receiver, Served(tmp_path / "server", model, receiver, watched=False) as server:
        with Router(tmp_path / "router", server.url) as router:
            replica, front = (url.removeprefix("http://") for url in (server.url, router.url))
            with scraping(tmp_path / "collector", ENGINES=f"[{replica}]", ENGINE_ROUTERS=f"[{front}]") as file:
                sampling = {"max_new_tokens": 8, "temperature": 0}
                post(f"{router.url}/generate", input_ids=PROMPT, sampling_params=sampling, stream=True)
                post(f"{server.url}/update_weights_from_disk", model_path=str(model))
                wait_for_names(file, replica, "sglang", expected("sglang"))
                # One replica, whatever the way.
                wait_for_names(file, replica, "sglang", expected("sglang", routed=True))
