"""The boards, in the order in which a person goes through them."""

from __future__ import annotations

from dashboards.boards import collector, ranks_collectives, rollouts_tools_rewards, run_overview, serving

BOARDS = (run_overview.BOARD, ranks_collectives.BOARD, rollouts_tools_rewards.BOARD, serving.BOARD, collector.BOARD)
