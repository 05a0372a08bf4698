"""Engines over HTTP where programs do something unusual, and what reviewers found."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from support.engine_server import SGLANG
from unit.inference_http.http_posts import post

from otel_rl import phase, rollout, step
from otel_rl.inference.http import calls
from otel_rl.telemetry import progress

BODY = {"text": "hi"}
UPDATE = "/update_weights_from_distributed"
#: Durations are of another clock than the times of spans; what counts twice is far above.
CLOCKS = 1.2


def test_answers_that_the_program_parses_itself_count_in_its_rollout(client, server, instrumented):
    with rollout(rollout_id="r"):
        for _ in range(3):
            assert json.loads(post(client, f"{server.url}/generate", read="text", json=BODY)) == SGLANG

    found = instrumented.span("rl.rollout").attributes
    assert found["rl.rollout.model_calls"] == 3
    assert found["rl.rollout.output_tokens"] == 9


def test_the_watchdog_knows_that_an_engine_has_answered_with_an_error(client, server, instrumented):
    server.status = 503
    progress.ended_calls()
    progress.watch_calls(lambda _: None)
    try:
        with suppress(Exception):
            post(client, f"{server.url}/generate", json=BODY)
    finally:
        progress.watch_calls(None)
    assert {call.failed for call in progress.ended_calls()} == {True}


def test_a_rollout_keeps_no_more_than_a_few_unparsed_answers(server, instrumented):
    from otel_rl.telemetry import open_trajectory

    httpx = pytest.importorskip("httpx")
    with rollout(), httpx.Client() as made:
        kept = [made.post(f"{server.url}/generate", json=BODY) for _ in range(open_trajectory.MOST_UNPARSED + 5)]
        assert len(open_trajectory.current().unparsed) == open_trajectory.MOST_UNPARSED

    assert instrumented.span("rl.rollout").attributes["rl.rollout.model_calls"] == len(kept)


@pytest.mark.parametrize("switched_off", [False, True])
def test_headers_that_can_be_read_once_reach_the_server(server, instrumented, switched_off):
    aiohttp = pytest.importorskip("aiohttp")
    from contextlib import nullcontext

    from opentelemetry.instrumentation.utils import suppress_instrumentation

    async def main():
        async with aiohttp.ClientSession() as session:
            headers = zip(["Authorization"], ["Bearer k"], strict=True)
            async with session.post(f"{server.url}/generate", json=BODY, headers=headers) as response:
                return await response.json()

    with suppress_instrumentation() if switched_off else nullcontext():
        assert asyncio.run(main()) == SGLANG
    assert server.headers("authorization") == ["Bearer k"]


def test_a_trace_context_of_the_session_stays(server, instrumented):
    aiohttp = pytest.importorskip("aiohttp")
    mine = f"00-{1:032x}-{2:016x}-01"

    async def main():
        async with aiohttp.ClientSession(headers={"traceparent": mine}) as session:
            async with session.post(f"{server.url}/generate", json=BODY) as response:
                await response.json()

    asyncio.run(main())
    assert server.headers("traceparent") == [mine]


class Alarmed(BaseException):
    """What a signal handler of the program raises."""


def test_a_signal_between_the_begin_and_the_request_leaves_nothing_behind(client, server, instrumented, monkeypatch):
    def alarm(*_, **__):
        raise Alarmed

    with monkeypatch.context() as patched:
        patched.setattr(calls.propagation, "inject", alarm)
        with pytest.raises(Alarmed):
            post(client, f"{server.url}/generate", json=BODY)
    instrumented.clear()
    post(client, f"{server.url}/generate", json=BODY)

    assert instrumented.span("text_completion").attributes["gen_ai.usage.output_tokens"] == 3
    assert server.headers("traceparent")


def test_a_request_without_headers_is_sent_and_followed(server, instrumented):
    requests = pytest.importorskip("requests")
    with requests.Session() as session:
        bare = session.prepare_request(requests.Request("POST", f"{server.url}/generate"))
        bare.headers = None
        assert session.send(bare).status_code == 200
        instrumented.clear()
        assert session.post(f"{server.url}/generate", json=BODY).json() == SGLANG

    found = [span.attributes for span in instrumented.spans]
    assert any(span["gen_ai.usage.output_tokens"] == 3 for span in found)


@pytest.mark.parametrize("library", ["httpx", "httpx2", "requests"])
def test_a_request_that_is_sent_twice_names_each_call(library, server, instrumented):
    module = pytest.importorskip(library)
    if library == "requests":
        session = module.Session()
        request = session.prepare_request(module.Request("POST", f"{server.url}/generate", json=BODY))
    else:
        session = module.Client()
        request = session.build_request("POST", f"{server.url}/generate", json=BODY)
    named = []
    with session:
        for _ in range(2):
            session.send(request).json()
            named += [value.split("-")[2] for value in server.headers("traceparent")]

    assert named == [f"{span.context.span_id:016x}" for span in instrumented.spans]


def test_an_operation_that_is_redirected_is_one(client, server, instrumented):
    server.redirects["/update_weights/"] = "/update_weights"
    given = {"follow_redirects": True} if client.startswith("httpx") else {}
    with step(iteration=1):
        post(client, f"{server.url}/update_weights/", read="status", json={}, **given)

    instrumented.span("rl.sync")
    [point] = instrumented.metrics()["rl.sync.operation.duration"]
    assert point.count == 1


def _seconds_of_sync(instrumented):
    return sum(point.sum for point in instrumented.metrics().get("rl.sync.duration", []))


def test_operations_that_run_at_once_are_one_stretch_of_time(server, instrumented):
    httpx = pytest.importorskip("httpx")

    async def main():
        async with httpx.AsyncClient() as made:
            await asyncio.gather(*(made.post(f"{server.url}{UPDATE}", json={}) for _ in range(4)))

    server.hold.clear()
    with step(iteration=1):
        with ThreadPoolExecutor() as pool:
            pool.submit(_release_after, server, 4)
            asyncio.run(main())

    spans = [span for span in instrumented.spans if span.name == "rl.sync"]
    whole = (max(span.end_time for span in spans) - min(span.start_time for span in spans)) / 1e9
    assert len(spans) == 4
    assert 0 < _seconds_of_sync(instrumented) < CLOCKS * whole


def _release_after(server, requests):
    """Let answers end when so many requests have come: all of them are open at once."""
    while len(server.requests) < requests:
        server.arrived.wait(60)
        server.arrived.clear()
    server.hold.set()


def test_operations_in_threads_inside_of_the_programs_own_sync_add_nothing(server, instrumented):
    requests = pytest.importorskip("requests")
    with step(iteration=1), phase("sync"), ThreadPoolExecutor(2) as pool:
        assert [done.status_code for done in pool.map(lambda _: requests.post(f"{server.url}{UPDATE}"), range(2))]

    own = [
        span for span in instrumented.spans if span.name == "rl.sync" and not span.attributes.get("rl.sync.operation")
    ]
    assert _seconds_of_sync(instrumented) < CLOCKS * (own[0].end_time - own[0].start_time) / 1e9


def test_an_operation_in_a_rollout_is_no_part_of_the_phase_sync(client, server, instrumented):
    with step(iteration=1), rollout():
        post(client, f"{server.url}/abort_request", read="status", json={})

    assert _seconds_of_sync(instrumented) == 0


@pytest.mark.parametrize("path", ["/pause", "/resume", "/sleep"])
def test_a_name_that_others_use_too_counts_for_a_server_that_is_an_engine(client, server, instrumented, path):
    calls._engines.clear()
    with step(iteration=1):
        post(client, f"{server.url}{path}", read="status", json={"message": "play"})
        assert [span.name for span in instrumented.spans] == []
        post(client, f"{server.url}/generate", json=BODY)
        post(client, f"{server.url}{path}", read="status", json={})

    assert instrumented.span("rl.sync").attributes["rl.sync.operation"] == path[1:]


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_stream_that_the_program_leaves_early_is_closed(library, server, instrumented):
    module = pytest.importorskip(library)
    server.raw = b"data: {}\n\n" * 50_000
    body = {**BODY, "stream": True}
    with module.Client() as made, made.stream("POST", f"{server.url}/generate", json=body) as response:
        for _ in response.iter_bytes(16):
            break

    assert instrumented.span("text_completion").attributes["rl.inference.stream.ended"] == "closed"


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_stream_whose_connection_is_lost_fails_its_call(library, server, instrumented):
    module = pytest.importorskip(library)
    server.missing = 10
    body = {**BODY, "stream": True}
    with (
        pytest.raises(module.RemoteProtocolError),
        module.Client() as made,
        made.stream("POST", f"{server.url}/generate", json=body) as response,
    ):
        list(response.iter_bytes())

    assert instrumented.span("text_completion").attributes["error.type"].endswith("RemoteProtocolError")


def test_an_answer_that_breaks_off_while_it_is_read_fails_its_call(server, instrumented):
    aiohttp = pytest.importorskip("aiohttp")
    server.missing = 10
    with pytest.raises(aiohttp.ClientPayloadError):
        post("aiohttp", f"{server.url}/generate", json=BODY)

    assert instrumented.span("text_completion").attributes["error.type"].endswith("ClientPayloadError")


def test_a_task_that_outlives_a_call_makes_calls_of_its_own(server, instrumented):
    httpx = pytest.importorskip("httpx")

    async def main():
        later = []

        async def hook(_):
            later.append(asyncio.create_task(again()))

        async def again():
            await answered.wait()
            async with httpx.AsyncClient() as other:
                return (await other.post(f"{server.url}/generate", json=BODY)).json()

        answered = asyncio.Event()
        async with httpx.AsyncClient(event_hooks={"request": [hook]}) as made:
            (await made.post(f"{server.url}/generate", json=BODY)).json()
        answered.set()
        assert await later[0] == SGLANG

    asyncio.run(main())
    assert len(instrumented.spans) == 2


def test_a_client_that_nobody_uses_for_engines_imports_little(server):
    """What follows a request is imported with the first one to an engine."""
    program = (
        "import sys; from otel_rl.instrumentors.requests import RequestsInstrumentor as R; R().instrument();"
        "import requests; requests.post(sys.argv[1], json={}).json();"
        "print(sorted(name for name in sys.modules if name.startswith(('otel_rl.inference', 'otel_rl.training'))))"
    )
    pytest.importorskip("requests")
    done = subprocess.run(
        [sys.executable, "-c", program, f"{server.url}/items"], capture_output=True, text=True, check=True
    )
    http = "otel_rl.inference.http"
    imported = ["otel_rl.inference", http, f"{http}.paths", f"{http}.senders", f"{http}.services"]
    assert done.stdout.strip() == str(imported)


@pytest.mark.parametrize("path", ["/generate", "/update_weights"])
@pytest.mark.parametrize("given", [True, "a function"])
def test_a_refusal_that_aiohttp_raises_fails_the_call_with_its_status(server, instrumented, path, given):
    aiohttp = pytest.importorskip("aiohttp")
    server.status = 503

    async def refuse(response):
        response.raise_for_status()

    async def main():
        raises = refuse if given == "a function" else True
        async with aiohttp.ClientSession(raise_for_status=raises) as session:
            await session.post(f"{server.url}{path}", json=BODY)

    with pytest.raises(aiohttp.ClientResponseError):
        asyncio.run(main())
    [span] = instrumented.spans
    assert span.attributes["error.type"] == "503"


@pytest.mark.parametrize("base", [None, "/", "/v1/"])
def test_a_session_with_a_base_url_is_followed(server, instrumented, base):
    aiohttp = pytest.importorskip("aiohttp")

    async def main():
        given = {} if base is None else {"base_url": f"{server.url}{base}"}
        url = (
            f"{server.url}/v1/completions/?x=1#y"
            if base is None
            else "/v1/completions"
            if base == "/"
            else "completions"
        )
        async with aiohttp.ClientSession(**given) as session:
            async with session.post(url, json={"prompt": "hi"}) as response:
                return response.status

    if base == "/v1/" and int(aiohttp.__version__.split(".")[1]) < 12:
        pytest.skip("a base URL with a path came with 3.12")
    assert asyncio.run(main()) == 200
    assert instrumented.span("text_completion")


def test_a_host_in_the_letters_of_its_language_is_the_same_server_for_all_clients():
    from otel_rl.inference import servers

    servers.forget()
    written = {
        servers.server(host, 80).labels["server.address"] for host in ("bücher.example", "xn--bcher-kva.example")
    }
    assert written == {"xn--bcher-kva.example"}
    assert servers.ascii_host("\ud800") == "\ud800"
