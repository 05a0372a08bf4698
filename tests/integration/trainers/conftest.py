"""The two launches that the tests here read: one plain, one watched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "examples")]

from runs import launch  # noqa: E402 - found through the path set above


@pytest.fixture(scope="session")
def watched_run(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("watched"), watched=True)


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("plain"), watched=False)
