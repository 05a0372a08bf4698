"""One file out of several, merged as the collector merges them: maps merge, everything else is replaced.

The text of the sources is kept as it is, comments included: a part that only one source defines is copied line by line,
and a comment says which source it came from. ruamel.yaml gives the line of every key.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from otel_rl.collector.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_rl.collector.parts.files import ConfigurationPart

_INDENT = 2
_SECTIONS = ("extensions", "receivers", "processors", "connectors", "exporters", "service")
"""The order of the result; a section that is not among them comes last."""


@dataclass(frozen=True)
class _Entry:
    """One key of one source: its value, the comments above it and its lines."""

    source: ConfigurationPart
    value: Any
    comments: list[str]
    lines: list[str]
    first_line: int


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield every setting at any depth: its path, its key and its value."""
    if isinstance(value, dict):
        for key, item in value.items():
            here = f"{path}.{key}" if path else str(key)
            yield here, str(key), item
            yield from leaves(item, here)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, path)


def merge(sources: Sequence[ConfigurationPart]) -> dict[str, Any]:
    """Return the configuration that the collector makes of these sources, as plain values.

    Raises:
        Refused: one of them is not YAML.
    """
    merged: dict[str, Any] = {}
    for source in sources:
        merged = _merged(merged, _parse(source))
    return merged


def flatten(sources: Sequence[ConfigurationPart]) -> str:
    """Merge to text: one YAML document with the sources' comments, each block labelled with its source.

    Raises:
        Refused: one of the sources is not YAML.
    """
    documents = [(source, source.text.splitlines(), _parse(source)) for source in sources]
    maps = [list(_entries(source, lines, tree, 0, len(lines))) for source, lines, tree in documents]
    sections = _grouped(maps)
    order = sorted(sections, key=lambda key: _SECTIONS.index(key) if key in _SECTIONS else len(_SECTIONS))
    return "\n\n".join("\n".join(_block(key, sections[key], 0)) for key in order) + "\n"


def heading(source: ConfigurationPart) -> list[str]:
    """Return the comment at the top of a source, without the lines that show a command."""
    lines = []
    for line in source.text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("#  "):
            lines.append(line.lstrip("# "))
    return lines


@lru_cache(maxsize=64)
def _parse(source: ConfigurationPart) -> Any:
    try:
        tree = YAML().load(source.text)
    except YAMLError as error:
        raise Refused(f"{source.name} is not YAML: {error}") from None
    if tree is not None and not isinstance(tree, CommentedMap):
        raise Refused(f"{source.name} is not a configuration: its top level is no map")
    return tree if tree is not None else CommentedMap()


def _merged(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in other.items():
        known = result.get(key)
        both = isinstance(known, dict) and isinstance(value, dict)
        result[key] = _merged(known, value) if both else value  # type: ignore[arg-type]
    return result


def _entries(
    source: ConfigurationPart, lines: list[str], tree: CommentedMap, begin: int, end: int
) -> Iterator[tuple[str, _Entry]]:
    """Yield every key of a map in block style, with its slice of the source."""
    positions = [(key, *tree.lc.key(key)) for key in tree]
    starts = [_first_comment(lines, line, column, begin) for _, line, column in positions]
    for number, (key, line, _) in enumerate(positions):
        stop = starts[number + 1] if number + 1 < len(starts) else end
        comments = lines[starts[number] : line]
        if begin == 0 and number == 0:
            comments = comments[len(_top_comment(lines)) :]
        yield key, _Entry(source, tree[key], _stripped(comments), _stripped(lines[line:stop]), line)


def _first_comment(lines: list[str], line: int, column: int, lowest: int) -> int:
    """Return the line where the comments of a key begin: those of its own indentation, right above it."""
    while line > lowest:
        text = lines[line - 1]
        if text.strip() and not (text.lstrip().startswith("#") and len(text) - len(text.lstrip()) == column):
            break
        line -= 1
    return line


def _top_comment(lines: list[str]) -> list[str]:
    return lines[: next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))]


def _stripped(lines: list[str]) -> list[str]:
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _grouped(maps: list[list[tuple[str, _Entry]]]) -> dict[str, list[_Entry]]:
    grouped: dict[str, list[_Entry]] = {}
    for entries in maps:
        for key, entry in entries:
            grouped.setdefault(key, []).append(entry)
    return grouped


def _block(key: str, entries: list[_Entry], depth: int) -> list[str]:
    """Return the lines of one key: copied where one source decides it, merged where several give maps."""
    replaced, deciding = _deciding(entries)
    margin = " " * (_INDENT * depth)
    if len(deciding) == 1:
        instead = f", instead of what {replaced[-1].source.name} says" if replaced else ""
        entry = deciding[0]
        return [f"{margin}# from {entry.source.name}{instead}", *entry.comments, *entry.lines]
    lines = [*deciding[0].comments, f"{margin}{key}:"]
    children = _grouped([_children(entry, depth + 1) for entry in deciding])
    marker = ""
    for child, child_entries in children.items():
        block = _block(child, child_entries, depth + 1)
        first, rest = (block[0], block[1:]) if block[0].lstrip().startswith("# from ") else ("", block)
        lines += [first] if first and first != marker else []
        lines += rest
        marker = first
    return lines


def _deciding(entries: list[_Entry]) -> tuple[list[_Entry], list[_Entry]]:
    """Return the entries that a later one replaces, and those that make up the value."""
    replaced: list[_Entry] = []
    deciding: list[_Entry] = []
    for entry in entries:
        if deciding and entry.value == deciding[-1].value:
            continue
        if deciding and not (isinstance(entry.value, dict) and isinstance(deciding[-1].value, dict)):
            replaced, deciding = [*replaced, *deciding], []
        deciding.append(entry)
    return replaced, deciding


def _children(entry: _Entry, depth: int) -> list[tuple[str, _Entry]]:
    tree = entry.value
    if not tree.fa.flow_style():
        lines = entry.source.text.splitlines()
        begin = entry.first_line + 1
        return list(_entries(entry.source, lines, tree, begin, entry.first_line + len(entry.lines)))
    margin = " " * (_INDENT * depth)
    return [(key, _Entry(entry.source, value, [], [margin + _in_flow(key, value)], 0)) for key, value in tree.items()]


def _in_flow(key: str, value: Any) -> str:
    """Return one key of a map in flow style, as a line of its own."""
    writer, text = YAML(), io.StringIO()
    writer.width = 1_000_000
    writer.preserve_quotes = True
    writer.dump(CommentedMap({key: value}), text)
    return text.getvalue().rstrip("\n")
