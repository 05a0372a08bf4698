"""Write the table of rooms into CONTRIBUTING.md.

Run it as `python -m instrumentation.rooms_page`. With `--check` nothing is written, and the exit status is 1 when the
page differs from `otel_rl.distro.rooms`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from instrumentation import generated_files
from otel_rl.distro.rooms import LAYERS

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
BEGIN = "<!-- generated; edit instrumentation/otel_rl/distro/rooms.py and run `make generate` -->"
END = "<!-- end of the generated table -->"


def table() -> str:
    """Return the table in Markdown, a row per room, from the top layer to the bottom."""
    header = ["| layer | folder of `instrumentation/otel_rl` | what |", "|---|---|---|"]
    rows = [
        f"| {height} | `{room.name}` | {room.subject} |"
        for height, layer in zip(range(len(LAYERS), 0, -1), LAYERS, strict=True)
        for room in layer
    ]
    return "\n".join([*header, *rows])


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Write or compare; returns the exit status."""
    current = generated_files.with_block(path.read_text(encoding="utf-8"), BEGIN, END, table())
    return generated_files.main("instrumentation.rooms_page", "otel_rl.distro.rooms", {path: current}, arguments)


if __name__ == "__main__":
    sys.exit(main())
