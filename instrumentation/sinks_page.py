"""Write the table of the collector's sinks into docs/sinks.md.

Run it as `python -m instrumentation.sinks_page`. With `--check` nothing is written, and the exit status is 1 when the
page differs from the sinks, their files in collector-config and `instrumentation/sinks.toml`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tomllib  # type: ignore[import-not-found,unused-ignore]  # tools run on Python 3.11 and later

from instrumentation import generated_files
from otel_rl.collector.parts.choices import SINKS
from otel_rl.collector.parts.files import shipped
from otel_rl.collector.parts.variables import names_in

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sinks.md"
KNOWN = ROOT / "instrumentation" / "sinks.toml"
BEGIN = "<!-- generated; edit collector/parts/choices.py or instrumentation/sinks.toml, and run `make generate` -->"
END = "<!-- end of the generated table -->"
PREFIX = "OTEL_RL_COLLECTOR_"
OF_THE_COLLECTOR = {"DATA_DIR", "DEAD_LETTER_DIR"}
"""Variables that are not of one sink."""


def table() -> str:
    """Return the table in Markdown, a row per sink."""
    known = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
    header = [
        "| `--sink` | what arrives there | limits | variables (`OTEL_RL_COLLECTOR_...`) | proven |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*header, *(_row(name, SINKS[name].brief, known[name]) for name in SINKS)])


def _row(name: str, brief: str, known: dict[str, str]) -> str:
    variables = [each.removeprefix(PREFIX) for each in names_in(shipped(f"sinks/{name}.yaml").text)]
    named = ", ".join(f"`{each}`" for each in variables if each not in OF_THE_COLLECTOR)
    proven = f"{known['proof']}, {known['seen']} ([test](../{known['test']}))"
    return f"| `{name}` | {brief} | {known['limits']} | {named} | {proven} |"


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Write or compare; returns the exit status."""
    current = generated_files.with_block(path.read_text(encoding="utf-8"), BEGIN, END, table())
    return generated_files.main("instrumentation.sinks_page", "the collector's sinks", {path: current}, arguments)


if __name__ == "__main__":
    sys.exit(main())
