"""The stack of compose/ without Docker, on free ports and in a temporary folder."""

from __future__ import annotations

import pytest
from stack import Stack, free_ports


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """One running stack for the tests that only send and query; the first build on a machine takes many minutes."""
    fast = {
        "OTEL_RL_COLLECTOR_DECISION_WAIT": "5s",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
        "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "0",
        "OTEL_RL_COLLECTOR_SPAN_METRICS_INTERVAL": "1s",
        "OTEL_RL_COLLECTOR_FLUSH_TIMEOUT": "200ms",
        "OTEL_RL_COLLECTOR_SELF_INTERVAL": "2s",
    }
    with Stack(tmp_path_factory.mktemp("stack"), free_ports(), fast) as running:
        yield running
