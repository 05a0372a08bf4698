"""The row of every rollout says what its program did: each client, each shape of :data:`rollout_shapes.SHAPES`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from model_clients import CLIENTS
from role_programs import JUDGE_MODELS
from rollout_shapes import SHAPES
from support.fake_openai import FakeOpenAI
from support.own_command import otel_rl

from otel_rl.store.reader import Reader
from otel_rl.store.reader.locate import find_run

HERE = Path(__file__).parent
TESTS = HERE.parents[1]

ALL = {
    f"{name}/{shape.name}": (shape.truth, name in shape.quick)
    for name, (library, kind) in CLIENTS.items()
    if importlib.util.find_spec(library)
    for shape in SHAPES
    if shape.clients(kind)
}
INSTRUMENTORS = [point.name for point in entry_points(group="opentelemetry_instrumentor")]
OTHERS = [name for name in INSTRUMENTORS if not name.startswith("otel_rl")]
QUICK = [case for case, (_, is_quick) in ALL.items() if is_quick]


class Run(NamedTuple):
    """Of one program: rows that `otel-rl trajectories` prints and turns of the spans, by rollout; and what failed."""

    rows: dict[str, Any]
    turns: dict[str, list[int]]
    requests: Counter[str]
    failed: dict[str, str]


def run(folder: Path, cases: list[str], *, collects: bool = False, others: bool = False) -> Run:
    """Run a program; with ``others`` the instrumentors of others in this environment record the calls, too."""
    disabled = {} if others else {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join(OTHERS)}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "OPENAI_"))}
    path = os.pathsep.join(filter(None, [str(TESTS), kept.get("PYTHONPATH")]))
    with FakeOpenAI() as model:
        done = subprocess.run(
            [
                Path(sys.executable).with_name("opentelemetry-instrument"),
                sys.executable,
                HERE / "rollouts_program.py",
                model.base_url,
                "collects" if collects else "never",
                *cases,
            ],
            cwd=folder,
            env={
                **kept,
                **disabled,
                "PYTHONPATH": path,
                "OTEL_RL_RAISE_INTERNAL_ERRORS": "1",
                "OTEL_RL_DATA_DIR": "store",
                "OTEL_RL_JUDGE_MODELS": JUDGE_MODELS,
                # The whole matrix has more rollouts a minute than have spans by default.
                "OTEL_RL_ROLLOUT_SPANS": str(2 * len(ALL)),
            },
            stdout=subprocess.PIPE,
            text=True,
            timeout=540,
            check=True,
        )
        requests = Counter(body["user"] for _, _, body in model.requests)
    printed = otel_rl(folder, "trajectories", "store").stdout
    found = {row.get("rl.rollout.id"): row for row in map(json.loads, printed.splitlines())}
    turns = defaultdict(list)
    for record in Reader(find_run(folder / "store", None)).records():
        values = getattr(record, "attributes", {})
        if values.get("gen_ai.operation.name") == "chat" and "rl.rollout.turn" in values:
            turns[values["rl.rollout.id"]].append(values["rl.rollout.turn"])
    return Run(found, turns, requests, json.loads(done.stdout.splitlines()[-1]))


def known(columns: dict[str, Any]) -> dict[str, Any]:
    """Without zeros of counts, for which no column says the same; of versions behind 0 is a value."""
    behind = columns.pop("rl.rollout.versions_behind")
    return {name: value for name, value in columns.items() if value} | {"versions behind": behind}


def check_row(case: str, of: Run) -> None:
    truth = ALL[case][0]
    assert case not in of.failed, of.failed[case]
    assert of.requests[case] == truth.all_requests
    expected = truth.row(case)
    assert known({name: of.rows[case].get(name) for name in expected}) == known(expected)


def check(case: str, of: Run) -> None:
    check_row(case, of)
    truth = ALL[case][0]
    # Turns of several processes are numbered by each.
    if not truth.in_children:
        assert sorted(of.turns[case]) == list(range(1, truth.turns + 1))


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    return run(tmp_path_factory.mktemp("quick"), QUICK)


@pytest.mark.parametrize("case", QUICK)
def test_a_row_is_the_truth(case, quick_run):
    check(case, quick_run)


@pytest.fixture(scope="module", params=["never", "collects"])
def whole_run(request, tmp_path_factory):
    return run(tmp_path_factory.mktemp(request.param), list(ALL), collects=request.param == "collects")


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL)
def test_each_row_is_the_truth_whenever_garbage_is_collected(case, whole_run):
    check(case, whole_run)


@pytest.fixture(scope="module")
def run_with_others(tmp_path_factory):
    if not OTHERS:
        pytest.skip("no other instrumentor is installed")
    return run(tmp_path_factory.mktemp("others"), list(ALL), others=True)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL)
def test_each_row_is_the_truth_beside_other_instrumentors(case, run_with_others):
    check_row(case, run_with_others)
