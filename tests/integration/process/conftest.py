"""Fixtures of the process tests; what they hand out is in process_support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_support import Collector, Programs
from warm_launcher import WarmLauncher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def launcher() -> Iterator[WarmLauncher | None]:
    """Starts what is to run under ``opentelemetry-instrument``; None: the command itself does."""
    if not WarmLauncher.is_possible:
        yield None
        return
    warm = WarmLauncher()
    yield warm
    warm.stop()


@pytest.fixture
def programs(tmp_path: Path, launcher: WarmLauncher | None) -> Programs:
    """Runs programs in a fresh directory."""
    return Programs(tmp_path, launcher)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """An OTLP/HTTP endpoint on loopback."""
    server = Collector()
    yield server
    server.stop()
