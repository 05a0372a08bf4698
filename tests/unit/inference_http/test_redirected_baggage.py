"""Our baggage does not follow a redirect to a host that may not have it, with every client that follows redirects."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from support.engine_server import EngineServer

from otel_rl import rollout
from otel_rl.core import settings

BODY = {"text": "hi", "model": "m", "messages": []}
PUBLIC = "public.example"


@pytest.fixture
def public(monkeypatch):
    """A server under a name that is no private one; its address is loopback all the same."""
    original = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        return original("127.0.0.1" if host in (PUBLIC, PUBLIC.encode()) else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with EngineServer() as running:
        yield running


def _httpx(module, url, headers):
    with module.Client(follow_redirects=True) as client:
        client.post(url, json=BODY, headers=headers)


def _httpx_async(module, url, headers):
    async def main():
        async with module.AsyncClient(follow_redirects=True) as client:
            await client.post(url, json=BODY, headers=headers)

    asyncio.run(main())


def _next_request(module, url, headers):
    with module.Client() as client:
        client.send(client.post(url, json=BODY, headers=headers).next_request)


def _requests(module, url, headers):
    module.post(url, json=BODY, headers=headers, timeout=60)


def _requests_next(module, url, headers):
    with module.Session() as session:
        session.send(session.post(url, json=BODY, headers=headers, allow_redirects=False, timeout=60).next)


def _urllib3(module, url, headers):
    with module.PoolManager() as manager:
        manager.request("POST", url, json=BODY, headers=headers)


def _aiohttp(module, url, headers):
    async def main():
        async with module.ClientSession() as session, session.post(url, json=BODY, headers=headers) as response:
            await response.read()

    asyncio.run(main())


def _openai(module, url, headers):
    with module.OpenAI(base_url=url.removesuffix("/chat/completions"), api_key="k", max_retries=0) as client:
        with contextlib.suppress(module.APIError):
            client.chat.completions.create(model="m", messages=[], extra_headers=headers)


CLIENTS = {
    "httpx": ("httpx", _httpx),
    "httpx, async": ("httpx", _httpx_async),
    "httpx, by hand": ("httpx", _next_request),
    "httpx2": ("httpx2", _httpx),
    "requests": ("requests", _requests),
    "requests, by hand": ("requests", _requests_next),
    "urllib3": ("urllib3", _urllib3),
    "aiohttp": ("aiohttp", _aiohttp),
    "openai": ("openai", _openai),
}
PATH = "/v1/chat/completions"


@pytest.fixture(params=CLIENTS)
def ask(request, instrumented):
    """Ask a path of a server with one of the clients, in a rollout."""
    library, call = CLIENTS[request.param]
    module = pytest.importorskip(library)
    with contextlib.ExitStack() as stack:
        if library == "openai":
            from otel_rl.instrumentors.openai import OpenAIInstrumentor

            ours = OpenAIInstrumentor()
            ours.instrument(skip_dep_check=True)
            stack.callback(ours.uninstrument)

        def run(url, headers=None):
            with rollout(rollout_id="r1", group_id="g1"):
                call(module, url, headers or {})

        yield run


@pytest.mark.parametrize("path", [PATH, "/elsewhere"])
def test_a_public_host_gets_the_trace_context_alone(path, ask, server, public):
    server.redirects[PATH] = f"http://{PUBLIC}:{public.server_port}{path}"
    ask(f"{server.url}{PATH}")

    assert "rl.rollout.id=r1" in server.headers("baggage")[0]
    assert public.requests[-1][0] == path
    assert public.headers("baggage") == []
    assert len(public.headers("traceparent")) == 1


def test_baggage_of_the_program_goes_along(ask, server, public):
    server.redirects[PATH] = f"http://{PUBLIC}:{public.server_port}{PATH}"
    ask(f"{server.url}{PATH}", {"baggage": "tenant=a,rl.group.id=g1"})

    assert public.headers("baggage") == ["tenant=a"]


@pytest.mark.parametrize("ask", ["httpx", "requests"], indirect=True)
@pytest.mark.parametrize("name", ["baggage", b"Baggage"])
def test_baggage_that_the_program_writes_as_bytes_is_treated_alike(name, ask, server, public):
    server.redirects[PATH] = f"http://{PUBLIC}:{public.server_port}{PATH}"
    ask(f"{server.url}{PATH}", {name: b"tenant=a,rl.group.id=g1"})

    assert server.headers("baggage") == ["tenant=a,rl.group.id=g1"]
    assert public.headers("baggage") == ["tenant=a"]


@pytest.fixture
def allowed(monkeypatch):
    """The user allows the public name."""
    monkeypatch.setenv("OTEL_RL_PROPAGATE_TO", PUBLIC)
    settings.reset()
    yield
    monkeypatch.delenv("OTEL_RL_PROPAGATE_TO")
    settings.reset()


@pytest.mark.usefixtures("allowed")
def test_a_host_that_the_user_allows_gets_it(ask, server, public):
    server.redirects[PATH] = f"http://{PUBLIC}:{public.server_port}{PATH}"
    ask(f"{server.url}{PATH}")

    assert "rl.rollout.id=r1" in public.headers("baggage")[0]


def test_a_private_host_gets_it(ask, server, instrumented):
    with EngineServer() as other:
        server.redirects[PATH] = f"http://localhost:{other.server_port}{PATH}"
        ask(f"{server.url}{PATH}")

        assert "rl.rollout.id=r1" in other.headers("baggage")[0]
