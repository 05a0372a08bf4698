"""Each board in turn, as Grafana gets it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("grafanalib", reason="the extra `dashboards` is not installed")

from rendered_boards import RENDERED


@pytest.fixture(params=RENDERED, scope="session")
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each board in turn."""
    return RENDERED[request.param]


@pytest.fixture(scope="session")
def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels of the board but its row titles."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]
