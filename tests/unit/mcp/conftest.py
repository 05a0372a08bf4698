"""The library with our instrumentor, and real servers."""

from __future__ import annotations

import importlib.util

import pytest
from support.certificates import no_certificates  # noqa: F401 - of all tests here

from otel_rl.instrumentors.mcp import McpInstrumentor

# The library is not in every environment that the unit tests run in.
collect_ignore_glob = [] if importlib.util.find_spec("mcp") else ["test_*.py"]


@pytest.fixture(scope="module")
def url():
    """A server over HTTP without telemetry, for the tests of one file."""
    from support.mcp_sessions import http_server

    with http_server() as found:
        yield found


@pytest.fixture
def instrumented(recorded):
    """The library with our instrumentor, and what is recorded."""
    McpInstrumentor().instrument(skip_dep_check=True)
    yield recorded
    McpInstrumentor().uninstrument()


@pytest.fixture
def spans_file(tmp_path):
    """Where an instrumented server writes its spans."""
    return tmp_path / "spans.jsonl"
