"""Real jobs are driven into failures, each of which is named with place and onset; healthy ones raise no alarm.

`make test-health` runs all, and writes benchmarks/results/health.json and the table of docs/health-proof.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from health import cases, runs
from health.table import Table, is_in_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.build_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def table() -> Iterator[Table]:
    found = Table()
    yield found
    found.write()


def _parameters(selected: list[cases.Case]) -> list[Any]:
    parameters = []
    for case in selected:
        marks = [pytest.mark.quick] if case.quick else []
        if case.miss:
            marks.append(pytest.mark.xfail(reason=case.miss, strict=True))
        parameters.append(pytest.param(case, id=case.name, marks=marks))
    return parameters


@pytest.mark.parametrize("case", _parameters(cases.SICK))
def test_a_driven_failure_is_named_with_place_and_onset(
    case: cases.Case, table: Table, model: Path, tmp_path: Path
) -> None:
    rows = runs.run(case, tmp_path / "job", model)
    table.sick += rows

    for row in rows:
        assert row["detected"], row
        assert row["place_is_right"], row
        assert is_in_time(row), row


@pytest.mark.parametrize("case", _parameters(cases.HEALTHY))
def test_a_healthy_run_raises_no_critical(case: cases.Case, table: Table, model: Path, tmp_path: Path) -> None:
    [row] = runs.run(case, tmp_path / "job", model)
    table.healthy.append(row)

    assert not row["false_criticals"], row


@pytest.mark.quick
def test_the_healthy_runs_raise_at_most_one_warning(table: Table) -> None:
    assert table.healthy
    assert sum(len(row["false_warnings"]) for row in table.healthy) <= 1, table.healthy
