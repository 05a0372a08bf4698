"""The report of a run that did not end in order says so first: which rank stopped, where, and who waited for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from test_postmortem_of_ranks import PROGRAM, TIMEOUT, started

from otel_rl.cli import main
from otel_rl.core import settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def settings_of_the_other_tests():
    yield
    settings.reset()


def _page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OTEL_RL_RING_DIR", str(folder / "rings"))
    settings.reset()
    assert main(["report", str(folder / "otel-rl"), "-o", str(folder / "page.html")]) == 0
    return " ".join((folder / "page.html").read_text(encoding="utf-8").split())


def _first_section(page: str) -> str:
    found = re.search(r'<section id="(\w+)">(.*?)</section>', page)
    assert found is not None
    return found[0]


def test_a_killed_rank_is_the_first_thing_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(tmp_path, PROGRAM.replace("{how}", "killed")) as job:
        job.process.wait(TIMEOUT)
    page = _page(tmp_path, monkeypatch)

    section = _first_section(page)
    assert section.startswith('<section id="ending">')
    assert "Rank 1 stopped first in step 3 (train) and did not enter all_reduce number 3 of group default_pg" in section
    assert "which rank 1 did not enter" in section
    findings = page[page.index('class="findings"') :]
    assert findings.index("Rank 1 stopped first in step 3") < findings.index("</section>")


def test_the_memory_of_the_ranks_up_to_the_end_stands_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The curve has one value a second.
    program = PROGRAM.replace("{how}", "killed").replace(
        "dist.all_reduce(message)", "otel_rl.flush(10); __import__('time').sleep(1); dist.all_reduce(message)"
    )
    with started(tmp_path, program) as job:
        job.process.wait(TIMEOUT)

    section = _first_section(_page(tmp_path, monkeypatch))
    assert section.startswith('<section id="ending">')
    _, drawing = section.split("Memory up to the end")
    assert "rank 0" in drawing
    assert "rank 1" in drawing


def test_a_run_that_ended_in_order_has_no_such_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(tmp_path, PROGRAM.replace("{how}", "in order")) as job:
        assert job.process.wait(TIMEOUT) == 0
    page = _page(tmp_path, monkeypatch)

    assert 'id="ending"' not in page
    assert "No flight recorder shows a process that failed" in page
