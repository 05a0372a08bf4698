"""Folders that are made once in a test session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.shared_runs import MakerError, once

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_made_once(tmp_path_factory):
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "result").write_text("here")

    folders = {once(tmp_path_factory, "made-once", make) for _ in range(2)}
    assert [folder / "result" for folder in folders] == [made[0] / "result"]
    assert len(made) == 1


def test_a_failure_is_raised_in_each_reader_and_not_tried_again(tmp_path_factory):
    tries = []

    def make(folder: Path) -> None:
        tries.append(folder)
        raise ValueError("no such model")

    for _ in range(2):
        with pytest.raises(MakerError, match="no such model"):
            once(tmp_path_factory, "not-made", make)
    assert len(tries) == 1
