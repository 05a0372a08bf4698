"""Write the table of `OTEL_RL_*` variables into docs/configuration.md.

Run it as `python -m instrumentation.configuration_page`. With `--check` nothing is written, and the exit status is 1
when the page differs from `otel_rl.core.settings`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from instrumentation import generated_files
from otel_rl.core.settings import VARIABLES, Variable

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
BEGIN = "<!-- generated; edit instrumentation/otel_rl/core/settings.py and run `make generate` -->"
END = "<!-- end of the generated table -->"


def table() -> str:
    """Return the table in Markdown."""
    header = ["| variable | default | accepts | scope | meaning |", "|---|---|---|---|---|"]
    return "\n".join([*header, *map(_row, VARIABLES.values())])


def _row(variable: Variable) -> str:
    default = variable.default if variable.default.startswith("(") else f"`{variable.default}`"
    return f"| `{variable.name}` | {default} | {variable.accepted} | {variable.scope} | {variable.meaning} |"


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Write or compare; returns the exit status."""
    current = generated_files.with_block(path.read_text(encoding="utf-8"), BEGIN, END, table())
    return generated_files.main(
        "instrumentation.configuration_page", "otel_rl.core.settings", {path: current}, arguments
    )


if __name__ == "__main__":
    sys.exit(main())
