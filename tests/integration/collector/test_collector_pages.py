"""Every command of the collector's pages works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from console_session import Session, sections

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = [*sorted(DOCS.glob("collector*.md")), DOCS / "engine-metrics.md"]
#: About a store of Prometheus: tests/integration/dashboards types it.
OF_PROMETHEUS = "Ask a finished run"
SECTIONS = [(page, title) for page in PAGES for title in sections(page.read_text()) if title != OF_PROMETHEUS]


@pytest.mark.parametrize(("page", "title"), SECTIONS, ids=[f"{page.stem}: {title}" for page, title in SECTIONS])
def test_commands_of_the_section_work_and_say_what_the_page_shows(
    otelcol_rl: Path, tmp_path: Path, page: Path, title: str
):
    session = Session(tmp_path, otelcol_rl)
    try:
        for step in sections(page.read_text())[title]:
            session.type(step)
    finally:
        codes = session.close()
    assert set(codes) <= {0}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_in_blocks_that_are_run(page: Path):
    assert re.findall(r"^```(?:bash|sh|shell|)$\n(?!```)\S", page.read_text(), re.MULTILINE) == []
