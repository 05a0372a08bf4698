"""The boards as Grafana gets them."""

from __future__ import annotations

import json
from pathlib import Path

from dashboards.boards import BOARDS
from dashboards.lib.render import render

ROOT = Path(__file__).resolve().parents[3]
#: The board about the collectors is about no run: it has selectors and links of its own.
COLLECTOR = "otel-rl-collector"
RANKS = "otel-rl-ranks-collectives"
RENDERED = {board.uid: json.loads(render(board)) for board in BOARDS}
