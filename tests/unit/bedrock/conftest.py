from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from support.fake_models import FakeModels

if TYPE_CHECKING:
    from collections.abc import Iterator

# The library has an environment of its own.
collect_ignore_glob = [] if importlib.util.find_spec("boto3") else ["test_*.py"]


@pytest.fixture
def server() -> Iterator[FakeModels]:
    with FakeModels() as running:
        yield running


@pytest.fixture
def instrumented(recorded) -> Iterator[None]:
    from otel_rl.inference import servers
    from otel_rl.inference.dropped_answers import record_abandoned
    from otel_rl.instrumentors.bedrock import BedrockInstrumentor

    record_abandoned()
    recorded.clear()
    servers.forget()
    BedrockInstrumentor().instrument(skip_dep_check=True)
    yield
    BedrockInstrumentor().uninstrument()


@pytest.fixture
def client(server, instrumented):
    import boto3

    return boto3.client(
        "bedrock-runtime",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 - of no account
    )
