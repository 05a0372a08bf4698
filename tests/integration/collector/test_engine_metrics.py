"""Metrics of inference engines through the real collector: from whom they are, and what is no engine."""

from __future__ import annotations

import itertools
import json
import re
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from collector_process import wait_for
from support.engine_metrics import ROUTER, SGLANG, TEXT, VLLM, WORKER, Answer, Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from collector_process import CollectorProcess

OVERLAY = "overlays/engine-metrics.yaml"
GLOBAL = "receivers::prometheus/engines::config::global"
SOON = {f"{GLOBAL}::scrape_interval": "500ms", f"{GLOBAL}::scrape_timeout": "500ms"}
MEMORY_LIMIT = 512 * 2**20  # the default
RUN = "007"  # a number that must stay a text
RAY = '# TYPE ray_node_cpu_utilization gauge\nray_node_cpu_utilization{SessionName="s"} 7\n'
ENGINE, TARGETS = "OTEL_RL_COLLECTOR_ENGINE", "OTEL_RL_COLLECTOR_ENGINE_TARGETS"


def points(collector: CollectorProcess) -> Iterator[tuple[dict[str, str], dict[str, Any], dict[str, Any]]]:
    """Resource, metric and data point of all that was scraped so far."""
    for group in collector.resources("metrics"):
        resource = _plain(group["resource"])
        for metric in (metric for scope in group["scopeMetrics"] for metric in scope["metrics"]):
            data = next(value for value in metric.values() if isinstance(value, dict))
            for point in data.get("dataPoints", ()):
                yield resource, metric, point


def _plain(item: dict[str, Any]) -> dict[str, str]:
    return {entry["key"]: entry["value"].get("stringValue") for entry in item.get("attributes", ())}


def of(collector: CollectorProcess, name: str, address: str) -> list[tuple[dict[str, str], float]]:
    """Resource and value of the points of a metric from an address."""
    return [
        (resource, point.get("asDouble", point.get("asInt")))
        for resource, metric, point in points(collector)
        if metric["name"] == name and resource["service.instance.id"] == address
    ]


def names(collector: CollectorProcess, address: str) -> set[str]:
    return {metric["name"] for resource, metric, _ in points(collector) if resource["service.instance.id"] == address}


def targets(folder: Path, name: str, engine: Engine, **labels: str) -> None:
    """Write a file as a job writes it: whole, or not there."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{name}.partial"
    partial.write_text(json.dumps([{"targets": [engine.address], "labels": labels}]))
    partial.replace(folder / f"{name}.json")


@pytest.fixture
def engines() -> Iterator[Callable[..., Engine]]:
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(Engine(*arguments, **options))


def test_each_engine_is_named_by_what_it_is_with_its_run_and_its_address(start_collector, engines):
    vllm, sglang, router = engines(VLLM), engines(SGLANG), engines(ROUTER, "/engine_metrics")
    listed = {
        "OTEL_RL_COLLECTOR_ENGINES": json.dumps([vllm.address, sglang.address]),
        "OTEL_RL_COLLECTOR_ENGINE_ROUTERS": f"[{router.address}]",
        "OTEL_RL_COLLECTOR_ENGINE_RUN_ID": RUN,
    }
    collector = start_collector("local.yaml", OVERLAY, **listed, **SOON)
    for name, engine, address in (
        ("vllm:num_requests_running", "vllm", vllm.address),
        ("sglang:num_running_reqs", "sglang", sglang.address),
        ("sglang_num_running_reqs", "sglang", WORKER),
    ):
        [(resource, _), *_] = wait_for(lambda name=name, address=address: of(collector, name, address), name)
        expected = {"service.name": engine, "service.instance.id": address, "rl.run.id": RUN, "rl.role": "engine"}
        assert resource == expected
    for one in (vllm, sglang, router):
        [(resource, value), *_] = of(collector, "up", one.address)
        assert (resource["service.name"], value) == ("engine", 1)


def test_what_names_the_run_and_the_replica_is_on_no_point(start_collector, engines, tmp_path):
    router = engines(ROUTER, "/engine_metrics")
    labels = {"rl_run_id": "r1", "rl_role": "judge", "__metrics_path__": "/engine_metrics"}
    targets(tmp_path / "targets", "router", router, **labels)
    collector = start_collector("local.yaml", OVERLAY, **{TARGETS: str(tmp_path / "targets")}, **SOON)
    wait_for(lambda: names(collector, WORKER), "the worker of the router")
    found = [(resource, _plain(point)) for resource, _, point in points(collector)]
    assert {(resource["rl.run.id"], resource["rl.role"]) for resource, _ in found} == {("r1", "judge")}
    kept = {name for _, attributes in found for name in attributes}
    assert kept.isdisjoint({"rl_run_id", "rl_role", "worker_addr", "engine_name"})
    assert {"model_name", "engine_type"} <= kept


def test_an_engine_that_a_job_lists_later_is_scraped_and_one_that_it_no_longer_lists_is_not(
    start_collector, engines, tmp_path
):
    folder = tmp_path / "targets"
    first, second = engines(VLLM), engines(VLLM)
    targets(folder, "first", first, rl_run_id="r1")
    (folder / "broken.json").write_text("[{")
    collector = start_collector("local.yaml", OVERLAY, **{TARGETS: str(folder)}, **SOON)
    wait_for(lambda: first.scrapes, "a scrape of the first")
    targets(folder, "second", second, rl_run_id="r2")
    (folder / "first.json").unlink()
    wait_for(lambda: second.scrapes, "a scrape of the second")
    wait_for(lambda: of(collector, "up", second.address), "its data")
    before = first.scrapes
    wait_for(lambda: second.scrapes > 6, "further scrapes of the second")
    assert first.scrapes <= before + 1


def test_ray_lists_what_it_has_over_http(start_collector, engines):
    node = engines(RAY)
    listed = json.dumps([{"labels": {"job": "ray"}, "targets": [node.address]}]).encode()
    dashboard = engines(
        path="/api/prometheus/sd", answers=lambda _: (200, {"Content-Type": "application/json"}, [listed])
    )
    discovery = f"[{{url: http://{dashboard.address}/api/prometheus/sd}}]"
    variables = {f"{ENGINE}_DISCOVERY": discovery, f"{ENGINE}_RUN_ID": RUN}
    collector = start_collector("local.yaml", OVERLAY, **variables, **SOON)
    [(resource, value), *_] = wait_for(
        lambda: of(collector, "ray_node_cpu_utilization", node.address), "a metric of Ray"
    )
    assert value == 7
    assert resource == {"service.name": "ray", "service.instance.id": node.address, "rl.run.id": RUN}


def _text(body: Iterator[bytes] | list[bytes], kind: str = TEXT, status: int = 200, **headers: str) -> Answer:
    return status, {"Content-Type": kind, **headers}, body


def _endless(_: int) -> Answer:
    return _text(b"".join(b'vllm:y{i="%d"} 1\n' % (1000 * k + i) for i in range(1000)) for k in itertools.count())


NO_ENGINES: dict[str, Callable[[int], Answer]] = {
    "a login page": lambda _: _text([b"<!doctype html><html><body>Sign in</body></html>"], "text/html"),
    "JSON": lambda _: _text([b'{"status": "ok"}'], "application/json"),
    "an error": lambda _: _text([VLLM.encode()], status=503),
    "a redirect": lambda _: _text([], status=302, Location="/elsewhere"),
    "100,000 series": lambda _: _text([b"".join(b'vllm:x{i="%d"} 1\n' % number for number in range(100_000))]),
    "200 labels": lambda _: _text([b"vllm:x{%s} 1\n" % b",".join(b'l%d="1"' % number for number in range(200))]),
    "a long label": lambda _: _text([b'vllm:x{a="%s"} 1\n' % (b"a" * 5000)]),
    "an endless body": _endless,
}


@pytest.fixture(scope="module")
def no_engines(otelcol_rl, tmp_path_factory) -> Iterator[tuple[CollectorProcess, dict[str, Engine], Engine]]:
    from collector_process import CollectorProcess

    with ExitStack() as stack:
        others = {name: stack.enter_context(Engine(answers=answers)) for name, answers in NO_ENGINES.items()}
        engine = stack.enter_context(Engine(VLLM))
        listed = json.dumps([one.address for one in (*others.values(), engine)])
        # As shipped, but for the interval, which has to hold the timeout.
        variables = {"OTEL_RL_COLLECTOR_ENGINES": listed, f"{GLOBAL}::scrape_interval": "10s"}
        files, folder = ["local.yaml", OVERLAY], tmp_path_factory.mktemp("no-engines")
        yield stack.enter_context(CollectorProcess(otelcol_rl, files, folder, variables)), others, engine


@pytest.mark.parametrize("name", NO_ENGINES)
def test_a_target_that_is_no_engine_gives_no_data_but_up_0(name, no_engines):
    collector, others, engine = no_engines
    address = others[name].address
    [(resource, value), *_] = wait_for(lambda: of(collector, "up", address), f"up of {name}")
    assert (resource["service.name"], value) == ("engine", 0)
    assert all(one == "up" or one.startswith("scrape_") for one in names(collector, address))
    # Nor does it keep the others from being read.
    wait_for(lambda: of(collector, "vllm:num_requests_running", engine.address), "the engine beside")


def test_of_an_endless_body_nothing_is_kept_in_memory(no_engines):
    """It is read to the timeout and thrown away: hundreds of megabytes here."""
    collector, others, _ = no_engines
    endless = others["an endless body"]
    wait_for(lambda: of(collector, "up", endless.address), "its end")
    with urllib.request.urlopen(f"http://127.0.0.1:{collector.metrics_port}/metrics", timeout=10) as answer:
        own = answer.read().decode()
    [memory] = re.findall(r"^otelcol_process_memory_rss\S* (\S+)$", own, re.MULTILINE)
    assert float(memory) < min(MEMORY_LIMIT, endless.sent)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_RL_COLLECTOR_ENGINES", "127.0.0.1:8000", 'a list of host:port, such as ["127.0.0.1:8000"]'),
        ("OTEL_RL_COLLECTOR_ENGINES", "[http://a:1]", 'a list of host:port, such as ["127.0.0.1:8000"]'),
        ("OTEL_RL_COLLECTOR_ENGINE_ROUTERS", "[a]", 'a list of host:port, such as ["127.0.0.1:8000"]'),
        (f"{ENGINE}_DISCOVERY", "http://a", "a list of discoveries, such as [{url: http://127.0.0.1:8265/api/"),
        (f"{ENGINE}_RUN_ID", 'a"b', "a name without quotes"),
        (TARGETS, "~/targets", "a path: only a shell knows ~"),
    ],
)
def test_a_variable_of_another_form_is_refused_in_one_line(refused, name, value, said):
    [line] = refused(["--role", "local", "--with", "engine-metrics"], **{name: value}).splitlines()
    assert f"{name}={value} is not {said}" in line
