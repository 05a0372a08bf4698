from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import claims
from support.charts_once import charts_once

from otel_rl.report.subjects import overview

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview

__all__ = ["charts_once"]


@pytest.fixture(autouse=True)
def _claims_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every report of these tests be contradicted by nothing that it has read."""
    examine = overview.examine

    def examined(collected: Collected) -> Overview:
        found = examine(collected)
        assert list(claims.violations(collected, found)) == []
        return found

    monkeypatch.setattr(overview, "examine", examined)
