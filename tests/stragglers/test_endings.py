"""A rank that hangs, is killed or finds no memory is named with step, phase and collective, and the hang in time."""

from __future__ import annotations

import json
import os
from pathlib import Path

import endings
import pytest
from test_injected_delays import RESULTS


@pytest.mark.quick
@pytest.mark.parametrize("ending", endings.QUICK, ids=str)
def test_the_rank_is_named(ending: endings.Ending, tmp_path: Path) -> None:
    _assert_right(endings.run(ending, tmp_path / "job"))


@pytest.mark.slow
@pytest.mark.full_size
def test_the_rank_of_each_of_ten_endings_is_named(tmp_path: Path) -> None:
    rows = [endings.run(ending, tmp_path / str(number)) for number, ending in enumerate(endings.NIGHTLY)]

    if RESULTS in os.environ:
        file = Path(os.environ[RESULTS])
        file.with_stem(f"{file.stem}_endings").write_text(
            json.dumps({"command": "make test-stragglers", "rows": rows}, indent=2) + "\n"
        )
    for row in rows:
        _assert_right(row)


def _assert_right(row: dict[str, object]) -> None:
    assert all(value is not False for value in row.values()), row
