"""The judgement of `make test-causes`, on findings made up here; the programs are run by that target only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from causes import healthy, judging, recordings, seen
from causes.cases import Case, Truth

TRUTH = Truth("search is slow on the second server", r"slow|takes", r"search[\s\S]*{second}", 20, "1 s a step")
CASE = Case("slow", "loop.py", bug="index_rebuild", truth=TRUTH)
SERVERS = "model servers: first=127.0.0.1:7000 second=127.0.0.1:7001"


def finding(text: str, severity: str = "warning", step: int | None = 20, **more):
    return {"text": text, "severity": severity, "onset_step": step, "evidence": [], "symptoms": [], **more}


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """Judge these findings of a recorded case."""
    (tmp_path / recordings.OUTPUT).write_text(SERVERS)

    def judge(*findings, case=CASE):
        monkeypatch.setattr(judging, "report", lambda *_: {"findings": list(findings)})
        return judging.judge(case, tmp_path)

    return judge


RIGHT = finding("Calls of search take long", evidence=["it takes 1 s at 127.0.0.1:7001"])


def test_a_finding_that_names_cause_and_place_is_found_at_its_number(judged):
    assert judged(RIGHT).found_at == 1
    assert judged(finding("A step takes 2 s"), RIGHT).found_at == 2


def test_a_finding_behind_the_third_is_not_found(judged):
    assert judged(*[finding("A step takes 2 s")] * 3, RIGHT).found_at == 0


def test_the_other_server_is_not_the_place(judged):
    assert judged(finding("search takes 1 s at 127.0.0.1:7000")).found_at == 0


@pytest.mark.parametrize(("step", "is_right"), [(17, True), (23, True), (24, False), (None, False)])
def test_an_onset_is_right_within_three_steps(judged, step, is_right):
    assert judged({**RIGHT, "onset_step": step}).onset_is_right is is_right


def test_an_onset_may_be_counted_in_steps_of_environments(judged):
    truth = Truth("slow", "slow", "reset", 14, "", counted_by=(1, 256))
    case = Case("sb3", "sb3.py", truth=truth)
    assert judged(finding("reset is slow", step=14 * 256 + 512), case=case).onset_is_right is True


def test_the_worst_severity_is_that_of_all_that_stands_under_a_finding(judged):
    below = finding("hang", severity="critical")
    verdict = judged(finding("interrupted", severity="notice", symptoms=[below]), case=Case("healthy", "loop.py"))
    assert (verdict.worst, verdict.alarms) == ("critical", ["critical: hang"])


def test_the_table_counts_what_was_found(judged):
    verdicts = [judged(RIGHT), judged(case=Case("healthy", "loop.py"))]
    table = judging.table({"slow": CASE, "healthy": Case("healthy", "loop.py")}, verdicts)
    assert "| cause and place named by the first finding | 1 | 1 |" in table
    assert "| healthy runs with a warning | 0 | 1 |" in table


ALL = (*seen.CASES, *healthy.CASES)


def test_each_case_has_a_name_of_its_own():
    assert len({case.name for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_program_of_a_case_has_its_bug_and_its_words_are_expressions(case):
    program = recordings.PROGRAMS / case.program
    sources = [program, *(recordings.PROGRAMS / f"{name}.py" for name in recordings.imported(program))]
    assert not case.bug or any(f'"{case.bug}"' in Path(source).read_text() for source in sources)
    if case.truth:
        re.compile(case.truth.cause_words)
        re.compile(re.sub(r"\{(first|second)\}", "", case.truth.place_words))
