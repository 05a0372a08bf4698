from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from support.certificates import no_certificates  # noqa: F401 - of all tests here
from support.fake_openai import FakeOpenAI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import openai

# The library is not in every environment that the unit tests run in.
collect_ignore_glob = [] if importlib.util.find_spec("openai") else ["test_*.py"]


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
def instrumented(recorded) -> Iterator[None]:
    from otel_rl.inference import servers
    from otel_rl.inference.dropped_answers import record_abandoned
    from otel_rl.instrumentors.openai import OpenAIInstrumentor

    record_abandoned()
    recorded.clear()
    servers.forget()
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    yield
    OpenAIInstrumentor().uninstrument()


@pytest.fixture
def client(server, instrumented) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(api_key="none", base_url=server.base_url, max_retries=2) as made:
        yield made


@pytest.fixture
async def async_client(server, instrumented) -> AsyncIterator[openai.AsyncOpenAI]:
    import openai

    async with openai.AsyncOpenAI(api_key="none", base_url=server.base_url, max_retries=2) as made:
        yield made
