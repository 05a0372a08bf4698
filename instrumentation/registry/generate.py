"""Write what is generated from the registry: `python -m instrumentation.registry generate`.

With `--check` nothing is written, and the exit status is 1 where a file differs from what would be.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from instrumentation.registry import model, render_docs, render_python
from instrumentation.registry.check import check

ROOT = Path(__file__).parents[2]
# Each folder belongs to the generator but for the files named.
PACKAGE = Path("instrumentation/otel_rl/semconv")
PAGES = Path("docs/reference")
WRITTEN_BY_HAND = frozenset({PACKAGE / "definitions.py"})


def outputs(registry: model.Registry) -> dict[Path, str]:
    """Return the text of every generated file by its path below the repository's root."""
    files = {PACKAGE / name: text for name, text in render_python.modules(registry).items()}
    return files | {PAGES / name: text for name, text in render_docs.pages(registry).items()}


def write(files: dict[Path, str], root: Path) -> None:
    """Bring the files below `root` to these texts."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    for path in strays(files, root):
        (root / path).unlink()


def differences(files: dict[Path, str], root: Path) -> list[str]:
    """List the differences, one line for each file that is missing, stale or no longer generated."""
    found = []
    for path, text in files.items():
        if not (root / path).exists():
            found.append(f"{path}: is missing")
        elif (root / path).read_bytes() != text.encode():
            found.append(f"{path}: differs from the registry")
    return found + [f"{path}: is not generated from the registry any more" for path in strays(files, root)]


def strays(files: dict[Path, str], root: Path) -> list[Path]:
    """Files that an earlier registry left behind."""
    present = [*(root / PACKAGE).glob("*.py"), *(root / PAGES).glob("*.md")]
    paths = {
        path.relative_to(root)
        for path in present
        if path.parent != root / PAGES or render_docs.NOTICE in path.read_text()
    }
    return sorted(paths - set(files) - WRITTEN_BY_HAND)


def main(arguments: list[str] | None = None, root: Path = ROOT, registry: Path = model.REGISTRY) -> int:
    """Write or compare; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m instrumentation.registry generate", description="Write constants and reference pages."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not up to date")
    options = parser.parse_args(arguments)
    lines = [str(problem) for problem in check(registry)]
    if not lines:
        files = outputs(model.resolve(model.read(registry)))
        if options.check:
            lines = differences(files, root)
            lines += ["run `make generate` and commit the result"] if lines else []
        else:
            write(files, root)
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
