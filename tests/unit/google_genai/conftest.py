from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from support.certificates import no_certificates  # noqa: F401 - of all tests here
from support.fake_models import FakeModels

if TYPE_CHECKING:
    from collections.abc import Iterator


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("google.genai") is not None
    except ModuleNotFoundError:
        return False


# The library has an environment of its own.
collect_ignore_glob = [] if _is_installed() else ["test_*.py"]


@pytest.fixture
def server() -> Iterator[FakeModels]:
    with FakeModels() as running:
        yield running


@pytest.fixture
def instrumented(recorded) -> Iterator[None]:
    from otel_rl.inference import servers
    from otel_rl.inference.dropped_answers import record_abandoned
    from otel_rl.instrumentors.google_genai import GoogleGenAIInstrumentor

    record_abandoned()
    recorded.clear()
    servers.forget()
    GoogleGenAIInstrumentor().instrument(skip_dep_check=True)
    yield
    GoogleGenAIInstrumentor().uninstrument()


@pytest.fixture
def client(server, instrumented):
    from google import genai

    return genai.Client(api_key="none", http_options={"base_url": server.url})
