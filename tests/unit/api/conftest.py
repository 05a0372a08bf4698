"""Rewards of a test are logged whatever other tests of the process have logged under these keys."""

from __future__ import annotations

import pytest

from otel_rl.training import reward_means, scalars


@pytest.fixture(autouse=True)
def nothing_logged():
    """Forget which source logged which key, and rewards of steps that other tests left open."""
    scalars.sink.reset()
    reward_means._open.clear()
    yield
    scalars.sink.reset()
    reward_means._open.clear()
