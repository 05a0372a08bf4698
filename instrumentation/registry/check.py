"""Check the registry: `python -m instrumentation.registry check [FOLDER]`; exit status 1 and a line for each fault."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

from instrumentation.registry import form, model, rules, upstream
from instrumentation.registry.problems import Problem


def check(folder: Path = model.REGISTRY, pins: Path = upstream.PINS) -> list[Problem]:
    """Every fault of the registry in a folder; the rules that span files are judged once each file has its form."""
    try:
        documents = model.read(folder)
    except yaml.MarkedYAMLError as error:
        return [_unreadable(error, folder)]
    problems = list(form.form_problems(documents, folder))
    if not problems:
        for rule in rules.ALL:
            problems += rule(documents)
        problems += upstream.upstream_problems(documents, pins)
    return sorted(problems)


def _unreadable(error: yaml.MarkedYAMLError, folder: Path) -> Problem:
    mark = error.problem_mark
    if mark is None:
        return Problem(folder, "file", str(error.problem))
    return Problem(Path(mark.name), f"line {mark.line + 1}", str(error.problem))


def main(arguments: list[str] | None = None) -> int:
    """Print the faults; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m instrumentation.registry check", description="Check the semantic conventions registry."
    )
    parser.add_argument("folder", nargs="?", type=Path, default=model.REGISTRY)
    options = parser.parse_args(arguments)
    problems = check(options.folder)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        registry = model.resolve(model.read(options.folder))
        signals = {kind: len(getattr(registry, kind)) for kind in ("metrics", "spans", "events", "entities")}
        print(
            f"registry is well: {len(registry.attributes)} attributes, "
            + ", ".join(f"{n} {k}" for k, n in signals.items())
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
