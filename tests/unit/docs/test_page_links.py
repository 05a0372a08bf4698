"""Every relative link of every page leads to a file of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_PAGES = [
    page
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "*/README.md",
        "otelcol-builder/components/*/*/README.md",
        "dashboards/runbooks/*.md",
    )
    for page in sorted(ROOT.glob(pattern))
    if not page.relative_to(ROOT).parts[0].startswith(".")
]
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert broken == []


def test_the_index_leads_to_every_page():
    folder = ROOT / "docs"
    index = folder / "README.md"
    linked = {(folder / link).resolve() for link in _LINK.findall(index.read_text())}
    lost = {page.name for page in folder.glob("*.md") if page != index and page.resolve() not in linked}
    assert lost == set(), "link it in docs/README.md"
