"""Real clients with our instrumentors, and a real server."""

from __future__ import annotations

import gc
from importlib.metadata import entry_points

import pytest
from support.engine_server import EngineServer
from unit.inference_http.http_posts import INSTALLED

LIBRARIES = {name.partition(".")[0] for name in INSTALLED}


@pytest.fixture
def server():
    with EngineServer() as running:
        yield running


@pytest.fixture(params=INSTALLED)
def client(request):
    """A client and its form: what `post` takes."""
    return request.param


@pytest.fixture
def instrumented(recorded):
    """The clients with our instrumentors, and what is recorded."""
    from otel_rl.inference import servers
    from otel_rl.inference.dropped_answers import record_abandoned

    record_abandoned()
    recorded.clear()
    servers.forget()
    group = entry_points(group="opentelemetry_instrumentor")
    ours = {f"otel_rl_{library}" for library in LIBRARIES}
    made = [one.load()() for one in group if one.name in ours]
    for one in made:
        one.instrument(skip_dep_check=True)
    yield recorded
    for one in made:
        one.uninstrument()
    # Answers that a test has not read: their calls would be recorded in the next one that makes a call.
    gc.collect()
    record_abandoned()
