"""The two launches that the tests here read: one plain, one watched."""

from __future__ import annotations

import pytest
from runs import launch


@pytest.fixture(scope="session")
def watched_run(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("watched"), watched=True)


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("plain"), watched=False)
