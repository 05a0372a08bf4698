from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from support.certificates import no_certificates  # noqa: F401 - of all tests here
from support.fake_models import FakeModels

if TYPE_CHECKING:
    from collections.abc import Iterator

# The library has an environment of its own.
collect_ignore_glob = [] if importlib.util.find_spec("anthropic") else ["test_*.py"]


@pytest.fixture
def server() -> Iterator[FakeModels]:
    with FakeModels() as running:
        yield running


@pytest.fixture
def instrumented(recorded) -> Iterator[None]:
    from otel_rl.inference import servers
    from otel_rl.inference.dropped_answers import record_abandoned
    from otel_rl.instrumentors.anthropic import AnthropicInstrumentor

    record_abandoned()
    recorded.clear()
    servers.forget()
    AnthropicInstrumentor().instrument(skip_dep_check=True)
    yield
    AnthropicInstrumentor().uninstrument()


def _has_spans() -> bool:
    return importlib.util.find_spec("anthropic._tracing") is not None


@pytest.fixture(params=["native", "own"])
def spans_of(request, monkeypatch) -> str:
    """Whose span a call has: the client's, or ours where that is switched off or the client has none."""
    if request.param == "native" and not _has_spans():
        pytest.skip("this version of anthropic has no spans")
    monkeypatch.setenv("ANTHROPIC_OPEN_TELEMETRY", "true" if request.param == "native" else "false")
    return request.param


@pytest.fixture
def client(server, instrumented, spans_of):
    import anthropic

    with anthropic.Anthropic(api_key="none", base_url=server.url, max_retries=2) as made:
        yield made


@pytest.fixture
async def async_client(server, instrumented, spans_of):
    import anthropic

    async with anthropic.AsyncAnthropic(api_key="none", base_url=server.url, max_retries=2) as made:
        yield made
