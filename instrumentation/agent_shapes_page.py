"""Write the tables of docs/agents.md that show what is tested for each client and agent library.

Run it as `python -m instrumentation.agent_shapes_page`. With `--check` nothing is written, and the exit status is 1
when the page differs from the marks `shape` and `bad_input` of tests and `instrumentation/agent_shapes.toml`.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomllib  # type: ignore[import-not-found,unused-ignore]  # tools run on Python 3.11 and later

from instrumentation import generated_files

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "agents.md"
ROWS: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "instrumentation" / "agent_shapes.toml").read_text())
BEGIN = "<!-- generated; edit instrumentation/agent_shapes.toml or the marks of tests, and run `make generate` -->"
END = "<!-- end of the generated tables -->"
SHAPES = (
    "turns", "stream", "stream left early", "parallel tools", "failing tool", "nested agent", "handoff", "cancelled",
)  # fmt: skip


def proven(mark: str) -> dict[str, set[str]]:
    """Return what the tests with this mark prove, by row."""
    found = defaultdict(set)
    for name, row in ROWS.items():
        for path in sorted(file for place in row["tests"] for file in _modules(ROOT / place)):
            for call in _marks(path, mark):
                given = next((ast.literal_eval(each.value) for each in call.keywords if each.arg == "of"), (name,))
                for of in given:
                    found[of] |= {ast.literal_eval(each) for each in call.args}
    return found


def _modules(place: Path) -> Iterator[Path]:
    yield from place.glob("test_*.py") if place.is_dir() else (place,)


def _marks(path: Path, mark: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{mark}":
            yield node


def without_test(row: dict[str, Any], kind: str) -> set[str]:
    """Return the shapes that a row names as `absent` or `not_recorded`."""
    return {shape for names in row.get(kind, ()) for shape in names.split(", ")}


def tables() -> str:
    """Return both tables in Markdown."""
    shapes, inputs = proven("shape"), proven("bad_input")
    lines = [f"| | {' | '.join(SHAPES)} |", "|---" * (len(SHAPES) + 1) + "|"]
    for name, row in ROWS.items():
        known = {"yes": shapes[name], "-": without_test(row, "absent"), "no": without_test(row, "not_recorded")}
        if row.get("is_library", True):
            cells = ([word for word, of in known.items() if shape in of] for shape in SHAPES)
            lines.append(f"|{row['title']}|{'|'.join('/'.join(cell) for cell in cells)}|")
    lines += ["", "| bad input | tested with |", "|---|---|"]
    for case in sorted({case for cases in inputs.values() for case in cases}):
        titles = [row["title"] for name, row in ROWS.items() if case in inputs[name]]
        lines.append(f"| {case} | {', '.join(titles)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Write or compare; returns the exit status."""
    current = generated_files.with_block(path.read_text(encoding="utf-8"), BEGIN, END, tables())
    return generated_files.main("instrumentation.agent_shapes_page", "the marks of tests", {path: current}, arguments)


if __name__ == "__main__":
    sys.exit(main())
