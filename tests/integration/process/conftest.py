"""Fixtures of the process tests; what they hand out is in process_support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_support import Collector, Programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Runs programs in a fresh directory."""
    return Programs(tmp_path)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """An OTLP/HTTP endpoint on loopback."""
    server = Collector()
    yield server
    server.stop()
