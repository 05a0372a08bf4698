"""Queue and cache of engines, as the process that leads the run asks their own metrics; real servers that misbehave."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from support.engine_server import EngineServer

from otel_rl.core import instrumentor_status, settings
from otel_rl.inference import engine_metrics, engine_targets
from otel_rl.process import process_identity
from otel_rl.telemetry import drops

VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
"""
#: As the router writes it: with another separator, and the address of the replica.
ROUTER = b"""sglang_num_running_reqs{worker_addr="http://10.0.0.1:30000",tp_rank="0"} 1.0
sglang_num_running_reqs{worker_addr="http://10.0.0.1:30000",tp_rank="1"} 1.0
sglang_num_running_reqs{worker_addr="http://10.0.0.2:30000",tp_rank="0"} 4.0
sglang_num_queue_reqs{worker_addr="http://10.0.0.1:30000",tp_rank="0"} 0.0
sglang_token_usage{worker_addr="http://10.0.0.1:30000",tp_rank="0"} 0.125
"""
RUNNING, WAITING, CACHE = "rl.engine.requests.running", "rl.engine.requests.waiting", "rl.engine.kv_cache.usage"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.paths.append(self.path)
        status, content = self.server.pages.get(self.path, (404, b"not found"))
        self.send_response(status)
        self.send_header("location", "/elsewhere")
        self.end_headers()
        for part in content:
            with contextlib.suppress(ConnectionError):
                self.wfile.write(part if isinstance(part, bytes) else bytes([part]))

    def log_message(self, *_):
        """Not on stderr."""


class MetricsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages, self.paths = {}, []

    @property
    def where(self):
        return f"127.0.0.1:{self.server_port}"


@pytest.fixture
def serve():
    running = []

    def start(pages):
        server = MetricsServer()
        server.pages = pages
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def engines(monkeypatch):
    monkeypatch.setattr(engine_targets, "_met", {})
    found = engine_metrics._Engines()
    monkeypatch.setattr(engine_metrics, "_engines", found)
    monkeypatch.setattr(engine_targets, "_folder", lambda **_: None)
    yield found
    found.thread.end()
    instrumentor_status._outcomes.pop("engine_metrics", None)


def meet(server):
    engine_targets._met[server.where] = None


def test_shards_of_a_replica_add_up_and_the_fullest_cache_counts(engines, serve):
    server = serve({"/metrics": (200, VLLM)})
    meet(server)
    assert engines.round() == engine_metrics.INTERVAL

    here = ("127.0.0.1", server.server_port)
    assert engines.values == {RUNNING: {here: 5.0}, WAITING: {here: 7.0}, CACHE: {here: 0.5}}


def test_schedulers_of_data_parallel_attention_add_up_and_ranks_of_one_do_not(engines, serve):
    lines = [b'sglang:num_running_reqs{dp_rank="%d",tp_rank="%d"} 10.0\n' % (tp // 2, tp) for tp in range(8)]
    server = serve({"/metrics": (200, [*lines, b'sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} +Inf\n'])})
    meet(server)
    engines.round()
    assert engines.values == {RUNNING: {("127.0.0.1", server.server_port): 40.0}}


def test_of_more_than_eight_engines_others_are_asked_each_time(engines, serve, monkeypatch):
    monkeypatch.setattr(engine_metrics, "MOST_ENGINES", 2)
    servers = [serve({"/metrics": (200, VLLM)}) for _ in range(3)]
    for server in servers:
        meet(server)
    for _ in range(3):
        engines.round()
    assert [len(server.paths) for server in servers] == [2, 2, 2]


def test_a_router_is_asked_by_its_own_path_and_gives_its_replicas(engines, serve):
    server = serve({"/engine_metrics": (200, ROUTER)})
    meet(server)
    engines.round()
    engines.round()

    first, second = ("10.0.0.1", 30000), ("10.0.0.2", 30000)
    assert engines.values[RUNNING] == {first: 1.0, second: 4.0}
    assert engines.values[CACHE] == {first: 0.125}
    assert server.paths == ["/metrics", "/engine_metrics", "/engine_metrics"], "the path that it answers is kept"


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({"/metrics": (200, b"<html>sign in</html>")}, "no metrics of vLLM or SGLang"),
        ({"/metrics": (200, b'{"error": "no"}')}, "no metrics of vLLM or SGLang"),
        ({"/metrics": (302, b"")}, "status 302"),
        ({"/metrics": (200, [b"x" * (1 << 20)] * 6)}, "more than 4 MiB"),
        (
            {"/metrics": (200, b'vllm:num_requests_running{a="\xff\xfe"} 1\nvllm:kv_cache_usage_perc NaN\n')},
            "no metrics of vLLM",
        ),
    ],
)
def test_what_answers_otherwise_is_counted_named_and_left_alone(engines, serve, pages, said):
    server, well = serve(pages), serve({"/metrics": (200, VLLM)})
    meet(server)
    meet(well)
    before = sum(drops.snapshot().values())
    engines.round()
    asked = len(server.paths)
    engines.round()

    state = instrumentor_status._outcomes["engine_metrics"]
    assert list(engines.values[RUNNING]) == [("127.0.0.1", well.server_port)]
    assert len(server.paths) == asked, "not in each round"
    assert sum(drops.snapshot().values()) == before + 1
    assert state["state"] == instrumentor_status.DEGRADED
    assert f"http://{server.where}/metrics: " in state["reason"]
    assert said in state["reason"]
    assert well.where not in state["reason"]


def test_a_server_without_metrics_is_told_and_is_no_fault(engines, serve):
    server = serve({})
    meet(server)
    before = sum(drops.snapshot().values())
    engines.round()
    state = instrumentor_status._outcomes["engine_metrics"]
    assert (state["state"], sum(drops.snapshot().values())) == (instrumentor_status.SKIPPED, before)
    assert "start SGLang with --enable-metrics" in state["reason"]


def test_an_engine_that_hangs_holds_the_others_back_for_a_bounded_time(engines, serve, monkeypatch):
    monkeypatch.setattr(engine_metrics, "_TIMEOUT", 0.2)
    blocker = threading.Event()

    class Slow(list):
        def __iter__(self):
            for _ in range(100):
                blocker.wait(0.05)
                yield b"x"

    server, well = serve({"/metrics": (200, Slow())}), serve({"/metrics": (200, VLLM)})
    meet(server)
    meet(well)
    engines.round()
    blocker.set()
    assert list(engines.values[RUNNING]) == [("127.0.0.1", well.server_port)]


def test_what_a_round_has_no_cpu_time_for_comes_first_in_the_next_one(engines, serve, monkeypatch):
    monkeypatch.setattr(engine_metrics, "_CPU", -1.0)
    servers = [serve({"/metrics": (200, VLLM)}) for _ in range(3)]
    for server in servers:
        meet(server)
    asked = []
    for _ in servers:
        engines.round()
        asked.append([len(server.paths) for server in servers])
    assert asked == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_of_very_many_series_those_of_queue_and_cache_are_read(engines, serve):
    many = b"".join(b'vllm:request_seconds_bucket{le="%d",model_name="m"} 1.0\n' % number for number in range(60_000))
    server = serve({"/metrics": (200, [many, VLLM])})
    meet(server)
    engines.round()
    assert engines.values[WAITING] == {("127.0.0.1", server.server_port): 7.0}


def test_who_leads_observes_engines_that_it_has_met_and_another_process_has_told_of(
    engines, serve, recorded, monkeypatch, tmp_path
):
    own, other = serve({"/metrics": (200, VLLM)}), serve({"/metrics": (200, VLLM)})
    meet(own)
    run = process_identity.current().id
    groups = [
        {"targets": [other.where, "8.8.8.8:80", "user:pw@127.0.0.1:80"], "labels": {"rl_run_id": run}},
        {"targets": ["10.0.0.1:1"], "labels": {"rl_run_id": "of another job"}},
    ]
    (tmp_path / "theirs.json").write_text(json.dumps(groups))
    (tmp_path / "hostile.json").write_text('[{"targets": 5}]')
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    monkeypatch.setattr(engine_targets, "_folder", lambda **_: tmp_path)
    assert engine_targets.known() == [own.where, other.where]
    engines.round()
    values = list(engine_metrics._values(WAITING))
    assert {labels["server.port"] for _, labels in values} == {own.server_port, other.server_port}
    monkeypatch.setattr(engines, "asked", time.monotonic() - 60)
    assert list(engine_metrics._values(WAITING)) == [], "an old value is none of now"


def test_an_engine_that_an_answer_proves_is_written_for_a_collector_and_removed_at_the_end(
    instrumented, monkeypatch, tmp_path
):
    monkeypatch.setattr(engine_targets, "_met", {})
    folder = tmp_path / "targets"
    monkeypatch.setenv("OTEL_RL_ENGINE_TARGETS", str(folder))
    settings.reset()
    with EngineServer() as server:
        for path in ("/generate", "/v1/chat/completions"):
            httpx.post(f"{server.url}{path}", json={"text": "hi"}).json()
        [path] = folder.glob("*.json")
        [group] = json.loads(path.read_text())
        assert group["targets"] == [f"127.0.0.1:{server.server_port}"]
        assert group["labels"]["rl_role"] == "engine"
        assert "rl_run_id" in group["labels"]
    monkeypatch.setattr(engine_targets, "_has_ended", False)
    engine_targets._remove()
    engine_targets._write()
    assert folder.is_dir(), "it may be the user's"
    assert list(folder.iterdir()) == []
