"""A subject that is added the way CONTRIBUTING says: a folder and one line, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.recipes import files_of
from unit.report.made_up_jobs import STARTED, context
from unit.report.synthetic_run import process
from unit.report.test_report_page import Page, _has

from otel_rl.report import subjects, write_report

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = Path(subjects.__file__).parent
NAME = "evaluations"


def recipe() -> dict[str, str]:
    return files_of("Add a subject to the report", "report/subjects")


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of the recipe beside the others, and its line in the list."""
    for path, text in recipe().items():
        file = tmp_path / "subjects" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(subjects, "__path__", [*subjects.__path__, str(tmp_path / "subjects")])
    monkeypatch.setattr(subjects, "SUBJECTS", (*subjects.SUBJECTS, NAME))
    yield
    for module in [module for module in sys.modules if module.startswith(f"{subjects.__name__}.{NAME}")]:
        del sys.modules[module]
    delattr(subjects, NAME)


def _run(folder: Path, seconds: float) -> Path:
    """Ten steps of 2 s, each with an evaluation."""
    writer = process(folder / "run", 0, started=STARTED)
    for step in range(1, 11):
        begin, root = 3.0 * step, context(step)
        writer.span("rl.evaluate", begin, begin + seconds, {"rl.phase": "evaluate"}, parent=root)
        writer.span("rl.rank.step", begin, begin + 2, {"rl.loop.iteration": step}, parent=root)
    writer.write()
    return folder / "run"


@pytest.mark.usefixtures("added")
def test_the_recipe_is_a_subject_with_a_finding_and_a_section(tmp_path: Path) -> None:
    report = write_report(_run(tmp_path, 0.5), None)
    [finding] = [finding for finding in report.overview.findings if finding.code == "slow_evaluations"]
    assert finding.text == "Evaluations take 25 % of the steps."
    page = Page(report.output)
    _has(page.texts["findings"], "Evaluations take 25 % of the steps.")
    _has(page.texts["evaluations"], "Number Mean Longest 10 500 ms 500 ms")


@pytest.mark.usefixtures("added")
def test_its_finding_is_only_said_where_it_matters(tmp_path: Path) -> None:
    report = write_report(_run(tmp_path, 0.05), None)
    assert [finding.code for finding in report.overview.findings if finding.section == NAME] == []


def test_the_recipe_is_one_folder_and_one_line_of_one_file() -> None:
    assert {path.partition("/")[0] for path in recipe()} == {NAME}
    assert {path.partition("/")[2] for path in recipe()} == {"__init__.py", "finding.py", "section.py", "spent.py"}


def test_every_folder_is_in_the_list_and_carries_its_name() -> None:
    folders = {path.parent.name for path in FOLDERS.glob("*/__init__.py")}
    assert sorted(subjects.SUBJECTS) == sorted(folders)
    assert [subject.name for subject in subjects.load()] == list(subjects.SUBJECTS)


def test_orders_name_only_what_there_is() -> None:
    loaded = subjects.load()
    sections = {key for subject in loaded for key in subject.sections}
    assert set(subjects.SECTIONS) == sections
    assert {key for subject in loaded for key in subject.blocks} <= sections
    assert set(subjects.CHECKS) <= set(subjects.SUBJECTS)
