from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from support.fake_dashscope import FakeDashScope

if TYPE_CHECKING:
    from collections.abc import Iterator

# The library is in an environment of its own.
collect_ignore_glob = [] if importlib.util.find_spec("dashscope") else ["test_*.py"]


@pytest.fixture
def server(monkeypatch) -> Iterator[FakeDashScope]:
    import dashscope

    with FakeDashScope() as running:
        monkeypatch.setattr(dashscope, "base_http_api_url", running.base_url)
        monkeypatch.setattr(dashscope, "api_key", "none")
        yield running


@pytest.fixture
def instrumented(recorded) -> Iterator[None]:
    from otel_rl.inference import servers
    from otel_rl.inference.dropped_answers import record_abandoned
    from otel_rl.instrumentors.dashscope import DashScopeInstrumentor
    from otel_rl.training import trajectories, trajectory_shares

    record_abandoned()
    trajectories._forget()
    trajectory_shares.forget()
    recorded.clear()
    servers.forget()
    DashScopeInstrumentor().instrument(skip_dep_check=True)
    yield
    DashScopeInstrumentor().uninstrument()
    trajectories._forget()
    trajectory_shares.forget()


@pytest.fixture
def content(monkeypatch) -> None:
    """Content is captured on spans."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
