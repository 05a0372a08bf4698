"""The middleware of services: the application's answers stay as they are, and rollouts are joined."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from wsgiref.util import FileWrapper, setup_testing_defaults

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind

import otel_rl
from otel_rl.services import ASGIMiddleware, WSGIMiddleware
from otel_rl.telemetry import propagation
from otel_rl.training import trajectory_shares

TRACE = "0123456789abcdef0123456789abcdef"
CARRIED = {"traceparent": f"00-{TRACE}-0123456789abcdef-01", "baggage": "rl.rollout.id=r7,rl.evil=1,tenant=a"}


@pytest.fixture(autouse=True)
def nothing_waits(recorded):
    trajectory_shares.forget()
    recorded.clear()
    yield
    trajectory_shares.forget()


def ask(app, headers=CARRIED, kind="http"):
    """Send one request to an application of ASGI; return what it sends."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "method": "POST", "path": "/score", "scheme": "http"}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(ASGIMiddleware(app)(scope, None, send))
    return sent


async def answer(_scope, _receive, send, status=200):
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})


def wsgi(app, headers=CARRIED):
    environ = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    setup_testing_defaults(environ)
    environ["wsgi.file_wrapper"] = FileWrapper
    return WSGIMiddleware(app)(environ, lambda *_: None)


def test_the_rollout_of_the_request_is_current_and_its_row_gets_what_is_done(recorded):
    async def app(*given):
        with otel_rl.tool("run"):
            otel_rl.reward("tests", 1.0)
        await answer(*given)

    sent = ask(app)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    [server] = [span for span in recorded.spans if span.kind is SpanKind.SERVER]
    assert (server.name, f"{server.context.trace_id:032x}") == ("POST", TRACE)
    assert server.attributes["http.response.status_code"] == 200
    assert server.attributes["rl.rollout.id"] == "r7"
    assert "rl.evil" not in server.attributes
    [change], left_out = trajectory_shares.take()
    assert left_out == 0
    assert change.columns["rl.rollout.tool_calls"] == 1
    assert change.columns["rl.rollout.id"] == "r7"
    assert change.columns["rl.rollout.trace_id"] == TRACE
    assert change.scores == {"tests": 1.0}


def test_a_rollout_of_this_process_counts_itself(recorded):
    headers = {}

    async def app(*given):
        with otel_rl.tool("run"):
            await answer(*given)

    with otel_rl.rollout("here"):
        propagation.inject(headers, "localhost")
        ask(app, headers)
    assert trajectory_shares.take() == ([], 0)
    [rollout] = [span for span in recorded.spans if span.name == "rl.rollout"]
    assert rollout.attributes["rl.rollout.tool_calls"] == 1


def test_a_request_without_ids_is_in_no_rollout_though_one_is_around(recorded):
    async def app(*given):
        otel_rl.reward("tests", 1.0)
        await answer(*given)

    with otel_rl.rollout("around") as around:
        ask(app, {})
    assert trajectory_shares.take() == ([], 0)
    assert around is not None
    [rollout] = [span for span in recorded.spans if span.name == "rl.rollout"]
    assert "rl.rollout.reward" not in rollout.attributes


def test_an_exception_goes_through_as_it_is_and_fails_the_span(recorded):
    raised = ValueError("secret")

    async def app(*_):
        raise raised

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared below
        ask(app)
    assert caught.value is raised
    [server] = recorded.spans
    assert server.attributes["error.type"] == "ValueError"


def test_only_a_server_s_own_failure_fails_its_span(recorded):
    for status in (404, 503):

        async def app(*given, status=status):
            await answer(*given, status=status)

        ask(app)
    assert [span.attributes.get("error.type") for span in recorded.spans] == [None, "503"]


def test_the_span_of_another_instrumentor_for_the_request_stays_the_only_one(recorded):
    tracer = trace.get_tracer("foreign")
    context = propagation.extract(CARRIED)

    async def app(*given):
        otel_rl.reward("tests", 1.0)
        await answer(*given)

    with tracer.start_as_current_span("POST /score", context, SpanKind.SERVER):
        ask(app)
    assert [span.name for span in recorded.spans] == ["POST /score"]
    [change], _ = trajectory_shares.take()
    assert change.scores == {"tests": 1.0}


def test_a_web_socket_goes_through(recorded):
    async def app(_scope, _receive, send):
        await send({"type": "websocket.close"})

    assert ask(app, kind="websocket") == [{"type": "websocket.close"}]
    assert recorded.spans == []


@pytest.mark.parametrize("headers", [{"traceparent": "junk"}, {"baggage": "=;,%%%"}, {"baggage": "rl.rollout.id"}])
def test_headers_that_nobody_can_read_cost_no_answer(headers, recorded):
    assert len(ask(answer, headers)) == 2
    assert len(recorded.spans) == 1
    assert trajectory_shares.take() == ([], 0)


@pytest.mark.parametrize("body", [[b"a", b"b"], FileWrapper(io.BytesIO(b"a"))], ids=["list", "file"])
def test_an_answer_that_servers_look_at_is_the_application_s_own(body, recorded):
    def app(_environ, start):
        start("200 OK", [])
        return body

    assert wsgi(app) is body
    assert len(recorded.spans) == 1


def test_an_answer_that_is_made_while_it_is_sent_is_in_the_rollout(recorded):
    closed = []

    def app(_environ, start):
        start("200 OK", [])
        try:
            yield b"a"
            otel_rl.reward("tests", 1.0)
            yield b"b"
        finally:
            closed.append(True)

    body = wsgi(app)
    assert next(body) == b"a"
    assert not trace.get_current_span().get_span_context().is_valid
    assert next(body) == b"b"
    body.close()
    assert closed == [True]
    [server] = recorded.spans
    assert server.attributes["http.response.status_code"] == 200
    [change], _ = trajectory_shares.take()
    assert change.scores == {"tests": 1.0}


def test_shares_of_requests_that_added_nothing_do_not_stay():
    for number in range(50):
        ask(answer, {**CARRIED, "baggage": f"rl.rollout.id=r{number}"})
    assert not trajectory_shares.has_news(quiet=False)
    assert len(trajectory_shares._of_child) == 0


def test_without_telemetry_nothing_is_imported():
    program = (
        "import asyncio, sys\n"
        "from otel_rl.services import ASGIMiddleware, WSGIMiddleware\n"
        "async def app(*given): print(*given)\n"
        "asyncio.run(ASGIMiddleware(app)(1, 2, 3))\n"
        "print(*WSGIMiddleware(lambda *given: given)(4, 5))\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["1 2 3", "4 5", "[]"]
