"""Write the modules that our instrumentors wait for, so that starting a process imports none of their classes.

Run it as `python -m instrumentation.trigger_table`. With `--check` nothing is written, and the exit status is 1 when
the table differs from the classes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from instrumentation.support_page import instrumentors

TABLE = Path(__file__).parent / "otel_rl" / "distro" / "own_triggers.py"
HEAD = '''"""Modules whose import makes an instrumentor of ours worth loading: generated; run `make generate`.

The class of an instrumentor declares them (:meth:`otel_rl.instrumentors.base.Instrumentor.triggers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

'''


def table() -> str:
    """The whole module."""
    rows = "".join(f"{kind.entry_point_name()!r}: {kind.triggers()!r}," for kind in instrumentors())
    source = (
        f"{HEAD}TRIGGERS: Final[Mapping[str, tuple[str, ...]]] = {{{rows}}}\n"
        '"""Entry point -> the modules that it patches, and last the library itself."""\n'
    )
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, timeout=60).stdout


def main(arguments: list[str] | None = None, path: Path = TABLE) -> int:
    """Write or compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m instrumentation.trigger_table")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the table is not up to date")
    check = parser.parse_args(arguments).check
    current = table()
    if path.exists() and path.read_text(encoding="utf-8") == current:
        return 0
    if check:
        print(
            f"{path.name}: differs from the instrumentors; run `make generate` and commit the result", file=sys.stderr
        )
        return 1
    path.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
