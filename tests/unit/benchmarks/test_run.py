"""The runner of the benchmarks tells a limit that is missed from a program that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
WRITES = """
import json, sys
from pathlib import Path
Path(sys.argv[2]).write_text(json.dumps({"figures": {"f": {"value": 2}}}))
sys.exit(1)
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run

    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    (tmp_path / "one.json").write_text(json.dumps({"figures": {"f": {"value": 1}}}))
    return run.run


def test_a_benchmark_that_misses_a_limit_has_its_new_result(run, tmp_path: Path):
    (tmp_path / "one.py").write_text(WRITES)
    assert run("one") == {"f": {"value": 2}}


@pytest.mark.parametrize("program", ["raise LookupError", "pass", WRITES.replace("exit(1)", "exit(3)")])
def test_a_benchmark_that_fails_ends_the_run_and_leaves_the_old_result(run, tmp_path: Path, program: str):
    (tmp_path / "one.py").write_text(program)
    with pytest.raises(SystemExit, match="benchmark one failed"):
        run("one")
    assert json.loads((tmp_path / "one.json").read_text())["figures"]["f"]["value"] == 1
