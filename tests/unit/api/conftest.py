"""Values of a test are logged whatever other tests of the process have logged under these keys."""

from __future__ import annotations

import pytest

from otel_rl.training import scalars


@pytest.fixture(autouse=True)
def nothing_logged():
    """Forget which source logged which key."""
    scalars.sink.reset()
    yield
    scalars.sink.reset()
