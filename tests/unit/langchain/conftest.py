"""The two ways LangChain is recorded: by the official instrumentor with our additions, and by ours alone."""

from __future__ import annotations

import importlib.util

import pytest
from support.certificates import no_certificates  # noqa: F401 - of all tests here

# The library is not in every environment that the unit tests run in.
collect_ignore_glob = [] if importlib.util.find_spec("langchain_core") else ["test_*.py"]

MODES = ("ours", "official")


def pytest_generate_tests(metafunc):
    """Run a test in both modes, and with ours alone if it asks for that."""
    if "mode" in metafunc.fixturenames:
        modes = MODES[:1] if "ours" in metafunc.fixturenames else MODES
        metafunc.parametrize("mode", modes, indirect=True)


@pytest.fixture(scope="module")
def mode(request, pipeline):
    """Both instrumentors of ours active, and in mode "official" the official one for LangChain as well.

    For all tests of a file: to instrument, all modules of the process are searched for copies of what is replaced.
    """
    from otel_rl.instrumentors.langchain import LangChainInstrumentor

    official = None
    if request.param == "official":
        module = pytest.importorskip("opentelemetry.instrumentation.genai.langchain")
        official = module.LangChainInstrumentor()
        official.instrument(skip_dep_check=True)
    LangChainInstrumentor().instrument(skip_dep_check=True)
    yield request.param
    LangChainInstrumentor().uninstrument()
    if official is not None:
        official.uninstrument()


@pytest.fixture
def ours(mode, recorded):
    from otel_rl.instrumentors.langchain import LangChainInstrumentor

    return LangChainInstrumentor()


@pytest.fixture(scope="module")
def follows_openai(pipeline):
    """Model calls are recorded, as they are the ``openai`` instrumentor's."""
    from otel_rl.instrumentors.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(skip_dep_check=True)
    yield
    OpenAIInstrumentor().uninstrument()
