"""A name of the pack means one thing: no two classes share one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "instrumentation" / "otel_rl"
#: Constants are generated from the registry, and named as it names them.
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent.name != "semconv"]


def test_no_two_top_level_classes_share_a_name():
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
