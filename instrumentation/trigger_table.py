"""Write what is known of our instrumentors before they are imported: the modules that they wait for, and their kind.

Run it as `python -m instrumentation.trigger_table`. With `--check` nothing is written, and the exit status is 1 when
the table differs from the classes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from instrumentation import generated_files
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
    """Return the whole module."""
    general_purpose = sorted(kind.entry_point_name() for kind in instrumentors() if kind.general_purpose)
    rows = "".join(f"{kind.entry_point_name()!r}: {kind.triggers()!r}," for kind in instrumentors())
    source = (
        f"{HEAD}TRIGGERS: Final[Mapping[str, tuple[str, ...]]] = {{{rows}}}\n"
        '"""Entry point -> the modules that it patches, and last the library itself."""\n'
        f"GENERAL_PURPOSE: Final = {tuple(general_purpose)!r}\n"
        '"""Entry points whose library does not suggest an AI workload."""\n'
    )
    return generated_files.formatted(source)


def main(arguments: list[str] | None = None, path: Path = TABLE) -> int:
    """Write or compare; returns the exit status."""
    return generated_files.main("instrumentation.trigger_table", "the instrumentors", {path: table()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
