"""Engines asked with ``urllib3``: its retries and redirects, what it shares with ``requests``, and other traffic."""

from __future__ import annotations

import gc
import gzip
import io
import json

import pytest
from support.engine_server import CHAT_EVENTS, SGLANG, SGLANG_EVENTS

from otel_rl import rollout
from otel_rl.inference.dropped_answers import record_abandoned

urllib3 = pytest.importorskip("urllib3")
BODY = json.dumps({"text": "hi"}).encode()
STREAM = json.dumps({"text": "hi", "stream": True}).encode()


@pytest.fixture
def manager():
    with urllib3.PoolManager() as made:
        yield made


def test_a_request_of_requests_is_one_call_and_that_of_requests(server, instrumented):
    requests = pytest.importorskip("requests")
    assert requests.post(f"{server.url}/generate", json={"text": "hi"}, timeout=60).json() == SGLANG

    [span] = instrumented.spans
    assert span.instrumentation_scope.name == "otel_rl.requests"
    assert len(server.headers("traceparent")) == 1


def test_retries_of_its_own_are_one_call(manager, server, instrumented):
    server.status = 503
    retries = urllib3.Retry(total=2, status_forcelist=[503], allowed_methods=None, raise_on_status=False)
    response = manager.request("POST", f"{server.url}/generate", body=BODY, retries=retries)

    assert response.status == 503
    assert len(server.requests) == 3
    found = instrumented.span("text_completion").attributes
    assert found["rl.inference.retries"] == 2
    assert found["error.type"] == "503"


def test_a_redirect_is_a_part_of_the_call(manager, server, instrumented):
    server.redirects["/generate/"] = f"{server.url}/generate"
    response = manager.request("POST", f"{server.url}/generate/", body=BODY)

    assert json.loads(response.data) == SGLANG
    del response
    gc.collect()
    record_abandoned()
    found = instrumented.span("text_completion").attributes
    assert (found["gen_ai.usage.output_tokens"], found["rl.inference.retries"]) == (3, 0)


def test_a_pool_for_one_server_is_followed_too(server, instrumented):
    with urllib3.HTTPConnectionPool("127.0.0.1", server.server_port) as pool, rollout(rollout_id="r"):
        assert json.loads(pool.urlopen("POST", "/generate", BODY).data) == SGLANG

    found = instrumented.span("text_completion").attributes
    assert (found["gen_ai.usage.output_tokens"], found["server.port"]) == (3, server.server_port)
    assert "rl.rollout.id=r" in server.headers("baggage")[0]


@pytest.mark.parametrize("given", [None, {}, {"X-Own": "1"}, urllib3._collections.HTTPHeaderDict({"X-Own": "1"})])
def test_headers_of_the_program_and_of_the_pool_are_sent_and_not_changed(server, instrumented, given):
    of_pool = {"X-Pool": "2"}
    before = None if given is None else dict(given)
    with urllib3.PoolManager(headers=of_pool) as manager:
        manager.request("POST", f"{server.url}/generate", body=BODY, headers=given)

    assert of_pool == {"X-Pool": "2"}
    assert (None if given is None else dict(given)) == before
    assert server.headers("x-pool") == (["2"] if given is None else [])
    assert server.headers("x-own") == (["1"] if given else [])
    assert len(server.headers("traceparent")) == 1


@pytest.mark.parametrize("name", ["traceparent", "Traceparent", "TRACEPARENT", b"traceparent", b"Traceparent"])
@pytest.mark.parametrize("through", ["manager", "pool"])
def test_a_trace_context_of_the_program_stays_however_it_is_written(manager, server, instrumented, name, through):
    mine = f"00-{1:032x}-{2:016x}-01"
    if through == "manager":
        manager.request("POST", f"{server.url}/generate", body=BODY, headers={name: mine})
    else:
        # The manager makes texts of the names; a pool sends a dictionary as it is.
        with urllib3.HTTPConnectionPool("127.0.0.1", server.server_port) as pool:
            pool.urlopen("POST", "/generate", BODY, {name: mine})

    assert server.headers("traceparent") == [mine]


@pytest.mark.parametrize("name", ["baggage", "Baggage", b"baggage", b"BAGGAGE"])
def test_baggage_of_the_program_stays_however_it_is_written(server, instrumented, name):
    with urllib3.HTTPConnectionPool("127.0.0.1", server.server_port) as pool, rollout(rollout_id="r"):
        assert json.loads(pool.urlopen("POST", "/generate", BODY, {name: "mine=1"}).data) == SGLANG

    assert server.headers("baggage") == ["mine=1"]
    assert len(server.headers("traceparent")) == 1
    assert instrumented.span("text_completion").attributes["gen_ai.usage.output_tokens"] == 3


def test_a_stream_that_the_garbage_collector_closes_is_recorded_later(manager, server, instrumented):
    server.chunks = SGLANG_EVENTS
    response = manager.request("POST", f"{server.url}/generate", body=STREAM, preload_content=False)
    next(response.stream())
    del response
    gc.collect()
    assert instrumented.spans == []

    record_abandoned()
    found = instrumented.span("text_completion").attributes
    assert found["rl.inference.stream.ended"] == "abandoned"
    assert found["gen_ai.usage.output_tokens"] == 1


def test_the_program_may_stop_a_generator_as_it_did_without_us(manager, server, instrumented):
    """``read_chunked`` closes the connection when an exception is thrown into it."""
    server.chunks = SGLANG_EVENTS
    response = manager.request("POST", f"{server.url}/generate", body=STREAM, preload_content=False)
    chunks = response.stream()
    next(chunks)
    with pytest.raises(KeyError):
        chunks.throw(KeyError("mine"))

    assert response.isclosed()
    response.close()
    assert instrumented.span("text_completion").attributes["rl.inference.stream.ended"] == "closed"


@pytest.mark.parametrize("url", [None, 3, b"/generate"])
def test_a_url_that_is_none_raises_what_it_raises_without_us(manager, instrumented, url):
    raised = []
    for call in (manager.urlopen, manager.urlopen.__func__.__wrapped__.__get__(manager)):
        with pytest.raises(Exception, match=r".*") as error:
            call("POST", url)
        raised.append((error.type, str(error.value)))

    assert raised[0] == raised[1]


@pytest.fixture
def opened(followed, monkeypatch):
    """Arguments of ``urlopen`` of a pool, as another tool below ours sees them."""
    [ours] = [one for one in followed if one.library == "urllib3"]
    ours.uninstrument()
    seen = []
    original = urllib3.HTTPConnectionPool.urlopen

    def urlopen(self, *args, **kwargs):
        seen.append((args, kwargs))
        return original(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(urllib3.HTTPConnectionPool, "urlopen", urlopen)
        ours.instrument(skip_dep_check=True)
        yield seen
        ours.uninstrument()
    ours.instrument(skip_dep_check=True)


@pytest.mark.parametrize("path", ["/other", "/generate"])
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((), {"body": BODY, "headers": {"x": "1"}, "retries": False}),
        ((BODY,), {"headers": {"x": "1"}}),
        ((BODY, {"x": "1"}, False), {"redirect": False}),
    ],
)
def test_arguments_reach_what_lies_below_as_they_were_given(opened, server, instrumented, path, args, kwargs):
    with urllib3.HTTPConnectionPool("127.0.0.1", server.server_port) as pool:
        pool.urlopen("POST", path, *args, **kwargs)

    [(seen, named)] = opened
    is_ours = path == "/generate"
    assert len(seen) == 2 + len(args)
    assert named.keys() - {"headers"} == kwargs.keys() - {"headers"}
    if not is_ours:
        assert (seen, named) == (("POST", path, *args), kwargs)
    assert len(server.headers("traceparent")) == is_ours
    assert server.headers("x") == (["1"] if "x" in str((args, kwargs)) else [])


def test_a_manager_sends_none_of_its_headers_where_the_program_says_none(server, instrumented):
    with urllib3.PoolManager(headers={"Authorization": "secret"}) as manager:
        for path in ("/other", "/generate"):
            manager.urlopen("POST", f"{server.url}{path}", headers=None, body=BODY)
            assert server.headers("authorization") == []
        assert len(server.headers("traceparent")) == 1


def test_headers_that_are_no_mapping_fail_as_they_do_without_us(server, instrumented, manager, caplog):
    raised = []
    for call in (manager.urlopen, manager.urlopen.__func__.__wrapped__.__get__(manager)):
        with pytest.raises(Exception, match=r".*") as error:
            call("POST", f"{server.url}/generate", headers=[("x", "1")], body=BODY)
        raised.append((error.type, str(error.value)))

    assert raised[0] == raised[1]
    assert instrumented.spans == []
    assert caplog.records == []


def test_arguments_of_a_read_reach_what_lies_below_as_they_were_given():
    from otel_rl.instrumentors.urllib3.responses import _reads

    seen = []
    read = _reads(lambda *args, **kwargs: seen.append((args[1:], kwargs)), takes_all=True)
    response = object()
    read(response)
    read(response, 5)
    read(response, amt=5, decode_content=True)

    assert seen == [((), {}), ((5,), {}), ((), {"amt": 5, "decode_content": True})]


@pytest.mark.skipif(not hasattr(urllib3.HTTPResponse, "read1"), reason="since urllib3 2.0")
def test_a_stream_that_is_read_piece_by_piece_without_an_amount_counts_whole(manager, server, instrumented):
    server.chunks = CHAT_EVENTS
    url = f"{server.url}/v1/chat/completions"
    with manager.request("POST", url, body=STREAM, preload_content=False) as response:
        pieces = list(iter(response.read1, b""))

    assert b"".join(pieces) == b"".join(CHAT_EVENTS)
    found = instrumented.span("chat").attributes
    assert found["gen_ai.usage.output_tokens"] == 5
    assert found["rl.inference.stream.ended"] == "completed"


def test_a_stand_in_for_a_response_without_what_is_private_is_followed(server, instrumented):
    class StandIn:
        status = 200

    from otel_rl.instrumentors.urllib3.patch import _opens_path

    urlopen = _opens_path(lambda *_, **__: StandIn())
    with urllib3.HTTPConnectionPool("127.0.0.1", server.server_port) as pool:
        response = urlopen(pool, "POST", "/generate", BODY)
    assert isinstance(response, StandIn)
    assert instrumented.spans == []

    del response
    gc.collect()
    record_abandoned()
    assert instrumented.span("text_completion")


@pytest.mark.parametrize("method", [name for name in ("read", "read1") if hasattr(urllib3.HTTPResponse, name)])
@pytest.mark.parametrize("amount", [1, 16, 512])
def test_a_stream_that_came_compressed_counts_to_its_last_byte(server, instrumented, method, amount):
    """All of it has been received long before all of it has been decompressed."""
    body = gzip.compress(b"".join(CHAT_EVENTS))
    head = {"content-encoding": "gzip", "content-length": str(len(body))}
    from otel_rl.instrumentors.urllib3.patch import _opens_path

    urlopen = _opens_path(lambda *_, **__: urllib3.HTTPResponse(io.BytesIO(body), headers=head, preload_content=False))
    with urllib3.HTTPConnectionPool("127.0.0.1", server.server_port) as pool:
        response = urlopen(pool, "POST", "/v1/chat/completions", STREAM)
    pieces = list(iter(lambda: getattr(response, method)(amount), b""))

    assert b"".join(pieces) == b"".join(CHAT_EVENTS)
    assert instrumented.span("chat").attributes["gen_ai.usage.output_tokens"] == 5
