"""Programs with a known fault are recorded, and the report names what is wrong, where, since when, and what it costs.

Healthy look-alikes of the same programs raise nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import forked_programs
from support.own_command import otel_rl

TOOLS = Path(sys.executable).parent
PROGRAMS = Path(__file__).parent
TESTS = Path(__file__).parents[2]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "OPENAI_"))}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)}


def _record(folder: Path, program: str, *arguments: str, **variables: str) -> dict[str, Any]:
    """Run a program, recorded; the findings of its report, and what the program printed."""
    command = [TOOLS / "opentelemetry-instrument", sys.executable, PROGRAMS / program, *arguments]
    environment = {**_environment(), **variables}
    ended = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=120
    )
    return {**_found(folder), "printed": ended.stdout}


def _found(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(otel_rl(folder, "report", "otel-rl", "--json").stdout)
    return found


@pytest.fixture(scope="module")
def of_ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The findings of two ranks that train, in a job that becomes slow and in one that is healthy."""
    folder = tmp_path_factory.mktemp("ranks")
    jobs = {"slow": ("15", "1", "0.1"), "healthy": ()}
    ranks = [
        rank
        for name, arguments in jobs.items()
        for rank in forked_programs.ranks(
            [str(PROGRAMS / "training_program.py"), *arguments],
            folder / name,
            {"OTEL_RL_DATA_DIR": str(folder / name / "otel-rl")},
        )
    ]
    forked_programs.run(["torch.distributed"], ranks, _environment())
    for rank in ranks:
        rank.check()
    return {name: _found(folder / name) for name in jobs}


def _grave(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in found["findings"] if one["severity"] != "notice"]


def test_a_reward_function_that_becomes_slow_on_one_rank_is_the_first_finding(of_ranks: dict[str, Any]) -> None:
    first, *others = _grave(of_ranks["slow"])
    assert (first["code"], first["subject"], first["ranks"]) == ("slower_reward", "score_b", [1])
    assert abs(first["onset_step"] - 15) <= 3
    assert first["cost"] == pytest.approx(0.1 / 0.28, abs=0.12)
    assert "score_b on rank 1 takes 1" in first["text"]
    assert "rank 0 unchanged" in first["text"]
    assert "all ranks lose" in first["text"]
    # Waits and longer steps are its symptoms, and no findings beside it. A machine under load may be slow elsewhere.
    assert [one for one in others if abs(one["onset_step"] - 15) <= 3] == []
    assert first["symptoms"]


def test_a_healthy_job_of_two_ranks_with_slow_first_steps_and_a_checkpoint_raises_nothing(
    of_ranks: dict[str, Any],
) -> None:
    found = of_ranks["healthy"]
    assert _grave(found) == []
    assert {"steps and phases that become slower", "late ranks"} <= set(found["checked"])
    assert found["not_observed"]["failing tools"] == "no tool was called"
    assert " steps of 2 ranks: checked " in found["verdict"]


def test_a_model_server_that_slows_down_and_refuses_calls_is_one_finding(tmp_path: Path) -> None:
    found = _record(tmp_path, "model_server_program.py", "0.01", "12")
    [one] = _grave(found)
    assert (one["code"], one["subject"]) == ("slower_model", "tiny")
    assert abs(one["onset_step"] - 12) <= 3
    assert "Time to the first chunk of model tiny at 127.0.0.1:" in one["text"]
    assert " were retried" in one["text"]
    assert one["cost"] > 0.5
    assert one["severity"] == "critical"


def test_a_healthy_model_server_raises_nothing(tmp_path: Path) -> None:
    found = _record(tmp_path, "model_server_program.py", "0.06")
    assert _grave(found) == []
    seen = {"failing model calls", "first chunks that come later", "retried model calls", "rollouts that become slower"}
    assert seen <= set(found["checked"])


def test_a_tool_that_takes_many_times_as_long_as_its_siblings_is_named_with_its_share(tmp_path: Path) -> None:
    [one] = _grave(_record(tmp_path, "tools_program.py", "slow"))
    assert (one["code"], one["subject"], one["severity"]) == ("slow_tool", "search", "warning")
    assert one["cost"] == pytest.approx(0.136 / 0.178, abs=0.2)
    assert "times as long as the median of the others" in one["text"]


def test_judges_that_are_awaited_at_once_cost_the_share_of_the_steps_in_which_the_program_waits_for_them(
    tmp_path: Path,
) -> None:
    named = ",".join(f"judges_program:{name}" for name in ("judge", "form", "length"))
    found = _record(tmp_path, "judges_program.py", OTEL_RL_REWARD_FUNCTIONS=named)
    assert _grave(found) == []
    [one] = [one for one in found["findings"] if one["code"] == "slow_reward"]
    assert (one["subject"], one["severity"]) == ("judge", "notice")
    # The sum of their times would be eight times as much.
    awaited = float(found["printed"])
    assert awaited / 2 < one["cost"] < 1.2 * awaited
    assert one["text"].endswith(" of the steps' time, in calls that run at once.")


def test_a_tool_that_fails_is_named_with_rate_error_onset_and_what_the_rollouts_were_worth(tmp_path: Path) -> None:
    [one] = _grave(_record(tmp_path, "tools_program.py", "failing"))
    assert (one["code"], one["subject"]) == ("failing_tool", "run_code")
    assert abs(one["onset_step"] - 12) <= 3
    assert "(13 of 39: TimeoutError; 0 % before)" in one["text"]
    assert "mean reward 0 with the failure, 1 without" in one["text"]
    # The rewards that fall with it, and the failed spans.
    assert {symptom["code"] for symptom in one["symptoms"]} == {"changed_value", "errors"}


def test_healthy_tools_raise_nothing(tmp_path: Path) -> None:
    found = _record(tmp_path, "tools_program.py")
    assert _grave(found) == []
    assert {"failing tools", "tools that become slower", "rollouts that become slower"} <= set(found["checked"])
