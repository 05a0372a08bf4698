"""Files that are written from a source of their own: one command line for all that write such files."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def main(module: str, source: str, current: Mapping[Path, str], arguments: list[str] | None) -> int:
    """Write the files that differ from ``current``; with ``--check`` only say which. Returns the exit status.

    ``module`` is what a user runs, ``source`` is what the files are made of.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not up to date")
    check = parser.parse_args(arguments).check
    stale = [path for path, text in current.items() if not path.exists() or path.read_bytes() != text.encode()]
    for path in stale:
        if check:
            print(f"{path.name}: differs from {source}; run `make generate` and commit the result", file=sys.stderr)
        else:
            path.write_text(current[path], encoding="utf-8")
    return 1 if check and stale else 0


def with_block(page: str, begin: str, end: str, text: str) -> str:
    """Return `page` with `text` between the comments `begin` and `end`."""
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def formatted(source: str) -> str:
    """Python source as `make format` writes it."""
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, timeout=60).stdout
