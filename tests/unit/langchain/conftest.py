"""The two ways LangChain is recorded: by the official instrumentor with our additions, and by ours alone."""

from __future__ import annotations

import importlib.util

import pytest

# The library is not in every environment that the unit tests run in.
collect_ignore_glob = [] if importlib.util.find_spec("langchain_core") else ["test_*.py"]

MODES = ("ours", "official")


@pytest.fixture(params=MODES)
def mode(request, recorded):
    """Both instrumentors of ours active, and in mode "official" the official one for LangChain as well."""
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
def ours(recorded):
    from otel_rl.instrumentors.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(skip_dep_check=True)
    yield LangChainInstrumentor()
    LangChainInstrumentor().uninstrument()
