"""Real clients with our instrumentors, and a real server."""

from __future__ import annotations

import gc
from importlib.metadata import entry_points

import pytest
from support.certificates import no_certificates  # noqa: F401 - of all tests here
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


@pytest.fixture(scope="session")
def instrumentors():
    """Our instrumentors of the clients. Looking for them takes longer than most tests: all packages are read."""
    ours = {f"otel_rl_{library}" for library in LIBRARIES}
    return [one.load() for one in entry_points(group="opentelemetry_instrumentor") if one.name in ours]


@pytest.fixture(scope="module")
def followed(instrumentors, pipeline):
    """The clients with our instrumentors, for all tests of a file: each time, all modules are searched for copies."""
    made = [one() for one in instrumentors]
    for one in made:
        one.instrument(skip_dep_check=True)
    yield made
    for one in made:
        one.uninstrument()


@pytest.fixture
def instrumented(followed, recorded):
    """The clients with our instrumentors, and what is recorded."""
    from otel_rl.inference import servers
    from otel_rl.inference.dropped_answers import record_abandoned

    record_abandoned()
    recorded.clear()
    servers.forget()
    yield recorded
    # Answers that a test has not read: their calls would be recorded in the next one that makes a call.
    gc.collect()
    record_abandoned()
    # The next collections pass over what the test has imported: a module's first test imports the clients.
    gc.freeze()
