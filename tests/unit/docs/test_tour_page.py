"""The pictures of the tour are small, and its text is short."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_pictures_are_small():
    sizes = {file.name: file.stat().st_size for file in (DOCS / "pictures").iterdir()}
    assert {name: size for name, size in sizes.items() if size > 120_000} == {}
    assert sum(sizes.values()) < 900_000


def test_the_tour_is_short():
    assert len((DOCS / "tour.md").read_text().split()) <= 600
