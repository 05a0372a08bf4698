from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))
openai = pytest.importorskip("openai")

from server import FakeOpenAI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.fixture
def instrumented(recorded) -> Iterator[None]:
    from otel_rl.instrumentors.openai import OpenAIInstrumentor, provider
    from otel_rl.instrumentors.openai.call import record_abandoned

    record_abandoned()
    recorded.clear()
    provider.forget()
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    yield
    OpenAIInstrumentor().uninstrument()


@pytest.fixture
def client(server, instrumented) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="none", base_url=server.base_url, max_retries=2) as made:
        yield made


@pytest.fixture
async def async_client(server, instrumented) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="none", base_url=server.base_url, max_retries=2) as made:
        yield made
