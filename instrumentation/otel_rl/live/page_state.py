"""The blocks and charts of the page of one run, and hashes of them: what a browser has is known by its hashes."""

from __future__ import annotations

import json
import marshal
import math
import re
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from otel_rl.report.page import markup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from otel_rl.report.core.blocks import PageBlock, Section
    from otel_rl.report.core.charts import Drawing
    from otel_rl.report.core.plots import Columns, Plot
    from otel_rl.report.page.cards import Tile
    from otel_rl.report.page.contents import PageContents

#: Macros that make the HTML of a block.
_PARTS: Any = markup.environment().get_template("live_parts.html.j2").module
_SLOT = re.compile(r'<div data-block="([\w-]+)"></div>')
#: Begin of the key of a chart in a state.
CHART = "chart-"
#: Values are hashed up to a multiple of this number: what comes after is sent again with what was appended.
_TOGETHER = 32


class PageState:
    """What the page of a run shows now."""

    def __init__(self, page: PageContents) -> None:
        self._page = page
        #: HTML by the key of the block, each with slots for those that it contains, and a hash of it.
        self._blocks: dict[str, Callable[[], str]] = {}
        self._hashes: dict[str, str] = {}
        self._drawings: dict[str, Drawing] = {}
        self._add_blocks()
        self._hashes |= {CHART + key: _hash_of_chart(drawing.plot) for key, drawing in self._drawings.items()}

    def hashes(self) -> dict[str, str]:
        """Return what a browser has that shows all of this."""
        return self._hashes

    def changed_blocks(self, state: Mapping[str, str]) -> dict[str, str]:
        """Return the HTML of the blocks that are not as in ``state``."""
        return {key: html() for key, html in self._blocks.items() if state.get(key) != self._hashes[key]}

    def changed_charts(self, state: Mapping[str, str]) -> dict[str, Any]:
        """Return what is new of the charts that are not as in ``state``."""
        changed = {
            key: _change(drawing.plot, self._hashes[CHART + key], state.get(CHART + key, ""))
            for key, drawing in self._drawings.items()
        }
        return {key: change for key, change in changed.items() if change}

    def filled(self, key: str) -> Markup:
        """Return the HTML of a block with all that it contains."""
        # Of the run there is only escaped text: it cannot look like a slot.
        return Markup(_SLOT.sub(lambda slot: self.filled(slot[1]), self._blocks[key]()))  # noqa: S704 - from templates

    def _add_blocks(self) -> None:
        page = self._page
        self._add("header", _PARTS.header(page))
        self._add("links", _PARTS.links(page))
        self._add("main", _PARTS.main(page))
        self._add("findings", _PARTS.findings(page))
        self._add("tiles", _PARTS.tiles(page.tiles))
        for section in page.sections:
            self._add(f"section-{section.key}", _PARTS.section(section, self._add_section(section)))
        if page.folded or page.empty:
            self._add("rest", _PARTS.rest(page))
        for section in page.folded:
            self._add(f"section-{section.key}", _PARTS.part(section, self._add_section(section)))
        if page.empty:
            self._add("empty", _PARTS.empty(page))
        self._add("footer", _PARTS.footer(page))

    def _add_section(self, section: Section) -> list[str]:
        """Take in the blocks of a section; return their keys."""
        names = []
        for key, block, drawings in _named(section):
            self._drawings |= drawings
            self._hashes[key] = hash_of_block(block)
            self._blocks[key] = partial(_html_of_block, block, key, list(drawings))
            names.append(key)
        return names

    def _add(self, key: str, html: str) -> None:
        text = str(html).strip()
        self._hashes[key] = _hash(text)
        self._blocks[key] = lambda: text


def grown_charts(sections: Iterable[Section], state: Mapping[str, str]) -> dict[str, tuple[dict[str, Any], str]]:
    """Return what is new, and the new hash, of the charts of ``sections`` that a browser has with this structure."""
    drawings = {
        key: drawing for section in sections for _, _, named in _named(section) for key, drawing in named.items()
    }
    grown = {}
    for key, drawing in drawings.items():
        before = state.get(CHART + key)
        if before is not None and (change := _change(drawing.plot, now := _hash_of_chart(drawing.plot), before)):
            grown[key] = change, now
    return {key: found for key, found in grown.items() if "plot" not in found[0]}


def tiles_block(tiles: list[Tile]) -> tuple[str, str, str]:
    """Return the key of the block of key figures, its HTML and its hash."""
    html = str(_PARTS.tiles(tiles)).strip()
    return "tiles", html, _hash(html)


def _named(section: Section) -> Iterator[tuple[str, PageBlock, dict[str, Drawing]]]:
    """Yield the blocks of a section with their keys, and their charts by key."""
    keys = _keys(f"{section.key}-{_hash(_name(block))}" for block in section.blocks)
    for key, block in zip(keys, section.blocks, strict=True):
        charts = _keys(f"{key}-{_hash(_name_of_chart(drawing))}" for drawing in block.charts)
        yield key, block, dict(zip(charts, block.charts, strict=True))


def hash_of_block(block: PageBlock) -> str:
    """Return the hash of what the HTML of a block is made of: to make that of a table takes eight times as long."""
    return _hash(repr((block, [drawing.plot.height for drawing in block.charts])))


def _html_of_block(block: PageBlock, key: str, charts: list[str]) -> str:
    return str(_PARTS.block(block, key, charts)).strip()


def _name(block: PageBlock) -> str:
    """Return what tells a block from the others of its section for as long as the run lasts."""
    if block.anchor or block.title:
        return block.anchor or re.sub(r"\d+", "", block.title)
    columns = " ".join(block.table.columns) if block.table else ""
    return f"{columns} {len(block.charts) > 0} {block.note != ''}"


def _name_of_chart(drawing: Drawing) -> str:
    # The keys of trainers' values are numbered; what they are called is in their titles.
    return drawing.title if drawing.key.startswith("values-") else drawing.key or drawing.title


def _keys(names: Iterator[str]) -> Iterator[str]:
    """Return names with a number where one comes again."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield f"{name}-{seen[name]}" if seen[name] > 1 else name


def _hash_of_chart(plot: Plot) -> str:
    """Return hashes of the structure, of the ranges, and of each source: of its first values and of the rest."""
    parts = [_hash(encoded(plot.structure())), _hash(encoded(_ranges(plot)))]
    for columns in plot.sources:
        number = len(next(iter(columns.values()), ())) // _TOGETHER * _TOGETHER
        parts.append(f"{number}:{_hash_of_values(columns, 0, number)}:{_hash_of_values(columns, number, None)}")
    return " ".join(parts)


def _change(plot: Plot, now: str, before: str) -> dict[str, Any] | None:
    """Return what a browser lacks of a chart that it has as ``before`` says."""
    if now == before:
        return None
    if now.partition(" ")[0] != before.partition(" ")[0]:
        sources = [_from(columns, 0) for columns in plot.sources]
        return {"plot": plot.structure(), **_ranges(plot), "sources": sources}
    known = before.split(" ")[2:]
    sources = [_appended(columns, first) for columns, first in zip(plot.sources, known, strict=True)]
    return {**_ranges(plot), "sources": sources}


def _ranges(plot: Plot) -> dict[str, Any]:
    return {"x_range": plot.x_range, "y_range": plot.y_range}


def _appended(columns: Columns, known: str) -> dict[str, Any]:
    """Return the values behind those that are known, all where those are not the same any more."""
    number, first, _ = known.split(":")
    return _from(columns, int(number) if first == _hash_of_values(columns, 0, int(number)) else 0)


def _from(columns: Columns, number: int) -> dict[str, Any]:
    """Return the values from one on, with None for what JSON has no number for."""
    return {
        "from": number,
        "columns": {
            name: [
                None if isinstance(value, float) and not math.isfinite(value) else value for value in values[number:]
            ]
            for name, values in columns.items()
        },
    }


def _hash_of_values(columns: Columns, first: int, last: int | None) -> str:
    # Ten times as fast as JSON. Version 2 has no references: equal values are equal bytes.
    content = marshal.dumps([(name, values[first:last]) for name, values in columns.items()], 2)
    return blake2b(content, digest_size=8).hexdigest()


def encoded(content: Any) -> str:
    """Return it as JSON that JavaScript can parse."""
    return json.dumps(content, allow_nan=False, separators=(",", ":"))


def _hash(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
