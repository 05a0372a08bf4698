"""The stack of compose/ without Docker, on free ports and in a temporary folder."""

from __future__ import annotations

import pytest
import shipped_settings
from stack import Stack, free_ports


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """One running stack for the tests that only send and query; the first build on a machine takes many minutes."""
    fast = {
        "OTEL_RL_COLLECTOR_DECISION_WAIT": "5s",
        "OTEL_RL_COLLECTOR_ROOT_WAIT": "1s",
        "OTEL_RL_COLLECTOR_SAMPLED_PERCENTAGE": "0",
    }
    settings = {
        shipped_settings.SPAN_METRICS_INTERVAL: "1s",
        shipped_settings.SCRAPE_INTERVAL: "2s",
        **shipped_settings.flush_timeout("200ms"),
    }
    with Stack(tmp_path_factory.mktemp("stack"), free_ports(), fast, settings) as running:
        yield running
