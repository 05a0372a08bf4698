"""Write docs/support.md: the instrumented libraries, the versions they are supported and tested in, and the systems.

Run it as `python -m instrumentation.support_page`. With `--check` nothing is written, and the exit status is 1 when the
page differs from the instrumentors, `tests/versions.toml` and `instrumentation/systems.toml`.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomllib  # type: ignore[import-not-found,unused-ignore]  # tools run on Python 3.11 and later

from instrumentation import generated_files

if TYPE_CHECKING:
    from otel_rl.instrumentors.base import Instrumentor

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "support.md"
VERSIONS = ROOT / "tests" / "versions.toml"
SYSTEMS = ROOT / "instrumentation" / "systems.toml"
HEAD = """# Supported libraries

<!-- generated; edit `requirements` of an instrumentor, tests/versions.toml or instrumentation/systems.toml, and run
`make generate` -->

The first requirement is the library itself: outside of its range it is left alone, and one line on stderr says so. The
others are companions: outside of their range their modules are left alone, and the instrumentor is `degraded`.
`otel-rl doctor` compares the table with what is installed.

| Library | Supported | Tested | Needs |
| --- | --- | --- | --- |
"""
TAIL = """
"Tested" are the versions of `python tests/library_versions.py`. While an instrumentor is off, those that need it
record a part only. To switch one off, name it in `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS`, for example `otel_rl_trl`.
"""
OF_SYSTEMS = """
## Systems

*End to end*: a real run was compared with the system's own log. *In part*: parts of it were run. *Against source*: its
source was read, and the part that we follow is tested alone.

| System | Version | Level | By | Seen | Test |
| --- | --- | --- | --- | --- | --- |
"""


def instrumentors() -> list[type[Instrumentor]]:
    """Return the classes of our entry points, by name."""
    group = entry_points(group="opentelemetry_instrumentor")
    ours = {one.name: one for one in group if one.name.startswith("otel_rl_")}
    return [ours[name].load() for name in sorted(ours)]


def page() -> str:
    """Return the whole page."""
    versions = tomllib.loads(VERSIONS.read_text(encoding="utf-8"))
    systems = tomllib.loads(SYSTEMS.read_text(encoding="utf-8"))
    libraries = "".join(_row(one, versions[one.library]) for one in instrumentors())
    return HEAD + libraries + TAIL + OF_SYSTEMS + "".join(_system(name, one) for name, one in systems.items())


def _row(instrumentor: type[Instrumentor], tested: dict[str, Any]) -> str:
    numbers = dict.fromkeys([tested["oldest"], *tested.get("also", []), tested["latest"]])
    supported = "<br>".join(f"`{requirement}`" for requirement in instrumentor.requirements)
    needs = ", ".join(f"`otel_rl_{library}`" for library in instrumentor.needs)
    return f"| `otel_rl_{instrumentor.library}` | {supported} | {', '.join(numbers)} | {needs} |\n"


def _system(name: str, facts: dict[str, str]) -> str:
    cells = (name, *(facts[key] for key in ("version", "level", "by", "seen", "test")))
    return f"| {' | '.join(cells)} |\n"


def main(arguments: list[str] | None = None, path: Path = PAGE) -> int:
    """Write or compare; returns the exit status."""
    return generated_files.main("instrumentation.support_page", "the instrumentors", {path: page()}, arguments)


if __name__ == "__main__":
    sys.exit(main())
