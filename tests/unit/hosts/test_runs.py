"""A run of a foreign suite counts only with proof of its mode; real pytest, a suite of four tests."""

from __future__ import annotations

import os
import select
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("tomllib", reason="the table of suites needs Python 3.11")

from hosts import runs, suites
from hosts.runs import Place, Run

TESTS = """
import os, pytest
def test_passes(): pass
def test_fails(): assert os.environ["SAID"] == "another"
@pytest.mark.skip
def test_skipped(): pass
@pytest.fixture
def broken(): raise ValueError
def test_error(broken): pass
"""

TOOL = """
from langchain_core.tools import tool
@tool
def double(x: int) -> int:
    "Double."
    return 2 * x
def test_call(): assert double.invoke({"x": 1}) == 2
"""


def suite(**other):
    values = {
        "name": "small",
        "distribution": "pytest",
        "source": "small",
        "select": ("test_small.py",),
        "instrumentors": ("otel_rl_openai",),
        "at_least": 4,
        "limit_minutes": 10,
        "arguments": ("-p", "no:cacheprovider"),
        "environment": {"SAID": "this"},
    }
    return suites.Suite(**{**values, **other})


@pytest.fixture
def place(tmp_path):
    source = tmp_path / "tests"
    source.mkdir()
    (source / "test_small.py").write_text(TESTS)
    return Place(Path(sys.executable).parent, source, tmp_path / "a scratch folder")


def needs_launcher():
    if shutil.which("opentelemetry-instrument", path=Path(sys.executable).parent) is None:
        pytest.skip("opentelemetry-instrument is not beside this interpreter")


def test_a_plain_run_records_one_outcome_per_test_and_is_no_comparison_where_they_are_too_few(place):
    result = runs.run(suite(), place, instrumented=False)

    assert result.outcomes == {
        "test_small.py::test_passes": "passed",
        "test_small.py::test_fails": "failed",
        "test_small.py::test_skipped": "skipped",
        "test_small.py::test_error": "error",
    }
    assert result.exit_status == 1
    assert "another" in result.reasons["test_small.py::test_fails"]
    assert runs.problems(suite(), result) == []
    assert runs.problems(suite(at_least=5), result) == ["plain: 4 tests ran; expected: 5 or more"]


def test_an_instrumented_run_without_the_active_instrumentor_proves_nothing(place):
    needs_launcher()
    result = runs.run(suite(), place, instrumented=True)

    assert result.modules == ["otel_rl"]
    assert len(result.outcomes) == 4
    assert "instrumented: otel_rl_openai was active in 0 recording processes; expected: 1 or more" in runs.problems(
        suite(), result
    )


def test_an_instrumented_run_that_recorded_a_call_is_evidence(place):
    needs_launcher()
    pytest.importorskip("langchain_core")
    (place.source / "test_small.py").write_text(TOOL)
    one = suite(instrumentors=("otel_rl_langchain",), at_least=1)
    result = runs.run(one, place, instrumented=True)

    assert runs.problems(one, result) == []
    assert result.active["otel_rl_langchain"] == 1


def test_only_the_named_tests_run_again(place):
    result = runs.run(suite(), place, ["test_small.py::test_passes"], instrumented=False)

    assert result.outcomes == {"test_small.py::test_passes": "passed"}


def test_a_left_out_test_does_not_run(place):
    result = runs.run(suite(deselect={"test_small.py::test_fails": "why"}), place, instrumented=False)

    assert "test_small.py::test_fails" not in result.outcomes


def test_a_test_that_ends_the_process_stays_unfinished(place):
    (place.source / "test_small.py").write_text("import os\ndef test_ends(): os._exit(3)\n")
    result = runs.run(suite(at_least=1), place, instrumented=False)

    assert result.outcomes == {"test_small.py::test_ends": "unfinished"}
    assert len(runs.problems(suite(at_least=1), result)) == 1


def test_a_run_over_its_limit_is_ended_with_its_children(place):
    (place.scratch / "source").mkdir(parents=True)
    ours, theirs = os.pipe()
    runs._until_limit(["bash", "-c", "sleep 600 & wait"], suite(limit_minutes=0.05), place, theirs)
    os.close(theirs)
    readable, _, _ = select.select([ours], [], [], 300)

    # The end of the file comes when the last process that held the other end is gone.
    assert readable
    assert os.read(ours, 1) == b""
    os.close(ours)


def test_a_run_that_was_ended_is_no_comparison():
    ended = Run(instrumented=False, outcomes=dict.fromkeys("abcd", "passed"))

    assert runs.problems(suite(), ended) == ["plain: pytest did not come to its end within 10 minutes, or was killed"]


def test_a_plain_run_that_loaded_the_pack_is_none():
    loaded = Run(instrumented=False, outcomes=dict.fromkeys("abcd", "passed"), exit_status=0, modules=["otel_rl"])

    assert runs.problems(suite(), loaded) == ["plain: otel_rl was loaded"]


def test_a_failed_instrumentor_is_no_comparison():
    failed = Run(
        instrumented=True,
        outcomes=dict.fromkeys("abcd", "passed"),
        exit_status=0,
        modules=["otel_rl"],
        active={"otel_rl_openai": 1},
        failed={"otel_rl_trl": "ImportError: x"},
        lines=1,
    )

    assert runs.problems(suite(), failed) == ["instrumented: otel_rl_trl failed: ImportError: x"]


def test_the_callers_telemetry_and_python_variables_do_not_reach_the_suite(place, monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_RL_QUIET", "PYTHONUNBUFFERED", "PYTEST_ADDOPTS"):
        monkeypatch.setenv(name, "1")
    variables = runs.variables(suite(), place)

    assert not {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_RL_QUIET", "PYTHONUNBUFFERED", "PYTEST_ADDOPTS"} & set(variables)
    assert variables["SAID"] == "this"
