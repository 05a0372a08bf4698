"""SGLang's own router between the program and an engine: a shim of SGLang's protocol in front of a real vLLM."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from engine_runs import run
from loopback_ports import free_ports
from sglang_shim import Shim
from support.otlp_servers import http_server
from vllm_server import Served

pytest.importorskip("vllm")
pytest.importorskip("sglang_router")
pytestmark = pytest.mark.quick

START, CALLS = 60, 4


class Router:
    """The router of these workers, running inside of `with`."""

    def __init__(self, folder, *workers):
        self.port, self._log = free_ports(1)[0], (folder / "router").open("w")
        command = [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--worker-urls", *workers, "--policy", "round_robin"]
        command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_ports(1)[0])]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        deadline = time.monotonic() + START
        while not self._is_ready():
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            threading.Event().wait(0.2)
        return self

    def _is_ready(self):
        try:
            with urllib.request.urlopen(f"{self.url}/readiness", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(30)
        self._log.close()


@pytest.fixture(scope="module")
def routed(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("routed")
    with http_server() as receiver:
        server = Served(folder / "server", model, receiver, watched=False)
        try:
            server.wait_until_it_answers()
            with Shim(server.url) as one, Shim(server.url) as other, Router(folder, one.url, other.url) as router:
                server.client = run("router_program.py", folder / "client", router.url, one.url, watched=True)
            server.found, server.asked = server.engine_spans(CALLS), [one.requests, other.requests]
        finally:
            server.stop()
        yield server


def test_the_trace_goes_through_the_router_to_the_engine(routed):
    calls = {(call["traceId"], call["spanId"]) for call in routed.client.store.named("text_completion")}
    assert len(calls) == CALLS
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in routed.found} == calls


def test_the_router_hands_on_the_trace_context_and_no_baggage(routed):
    """What it does (0.3.2); the engine does not learn which rollout it works for."""
    generated = [one for asked in routed.asked for one in asked if one[0] == "/generate"]
    through = [headers for _, headers, body in generated if "external_trace_header" not in body]
    assert (len(generated), len(through)) == (CALLS, CALLS - 1)
    for headers in through:
        names = [name.lower() for name in headers]
        assert names.count("traceparent") == 1
        assert "baggage" not in names


def test_both_workers_were_asked(routed):
    for asked in routed.asked:
        assert [path for path, _, _ in asked if path == "/generate"]


def test_a_stream_through_the_router_has_its_tokens_times_and_reason(routed):
    store = routed.client.store
    [rollout] = [one for one in store.named("rl.rollout") if one["attributes"]["rl.rollout.id"] == "streamed"]
    [call] = [one for one in store.named("text_completion") if one["traceId"] == rollout["traceId"]]
    whole = store.named("text_completion")[0]
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons"):
        assert call["attributes"][name] == whole["attributes"][name]
    assert call["attributes"]["gen_ai.response.time_to_first_chunk"] > 0


def test_a_trace_header_in_the_body_is_the_programs_own(routed):
    [own] = [body for asked in routed.asked for _, _, body in asked if "external_trace_header" in body]
    assert own["external_trace_header"] == {"traceparent": f"00-{1:032x}-{1:016x}-01"}


def test_the_step_sums_up_what_the_engine_did(routed):
    [step] = [step["attributes"] for step in routed.client.store.named("rl.rank.step")]
    assert (step["rl.engine.requests"], step["rl.engine.profiled_requests"]) == (CALLS, CALLS)
    assert step["rl.engine.time_to_first_token"] >= step["rl.engine.prefill_time"] > 0


def test_operations_on_all_workers_and_on_one_are_operations(routed):
    memory = ["release_memory_occupation", "resume_memory_occupation"]
    syncs = [span["attributes"].get("rl.sync.operation") for span in routed.client.store.named("rl.sync")]
    # The second is the phase of the program.
    assert syncs == ["flush_cache", None, *memory, "update_weights_from_disk"]
