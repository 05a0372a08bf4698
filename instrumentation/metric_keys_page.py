"""Write what is known of the keys that trainers log: docs/metric-keys.md, and the table that the pack reads.

Run it as `python -m instrumentation.metric_keys_page`. With `--check` nothing is written, and the exit status is 1 when
a file differs from `instrumentation/metric_keys.csv`.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from instrumentation import generated_files
from otel_rl.semconv import metrics
from otel_rl.semconv.definitions import MetricDefinition
from otel_rl.training.key_categories import CATEGORIES, category_of

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).parent / "metric_keys.csv"
PAGE = ROOT / "docs" / "metric-keys.md"
MODULE = Path(__file__).parent / "otel_rl" / "training" / "metric_keys.py"
#: Column `system` of the table -> how it is called, in the order of the page.
SYSTEMS = {
    "own loop": "own loop",
    "trl.grpo": "TRL GRPO, RLOO",
    "trl.ppo": "TRL PPO",
    "trl.dpo": "TRL DPO",
    "trl.sft": "TRL SFT",
    "tinker_cookbook": "Tinker's cookbook",
    "verl": "verl",
    "modelstudio": "Model Studio",
    "slime": "slime",
    "openrlhf": "OpenRLHF",
    "nemo_rl": "NeMo-RL",
    "skyrl": "SkyRL",
}
#: Systems that have other keys for a few metrics only.
VARIANTS = {"trl.earlier": "TRL before 1.0", "trl.async_grpo": "TRL AsyncGRPO"}
DEFINITIONS = {one.name: name for name, one in vars(metrics).items() if isinstance(one, MetricDefinition)}
HEAD = """# Keys that trainers log

<!-- generated; edit instrumentation/metric_keys.csv and run `make generate` -->

Every number that is logged is in the event `rl.step` under its own key, and in `rl.trainer.metric`. Where the table has
its key, it is the metric on the left too, so that boards and alerts read one name for all trainers. A key is also
found behind `train/`. `OTEL_RL_LABELS` gives a key of yours one of these names ([trainers](trainers.md#other-names)).
An empty place: no key is known that the algorithm logs it under.

"""
CODE = '''"""Keys of trainers that have a metric of the registry: generated; run `make generate`.

``instrumentation/metric_keys.csv`` has all keys that are known. Several keys per metric: trainers and versions name
them differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_rl.semconv import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.semconv.definitions import MetricDefinition

'''


class Key(NamedTuple):
    """A row of the table; ``metric`` is empty where the registry has none."""

    system: str
    key: str
    metric: str
    unit: str
    source: str
    meaning: str


def keys() -> list[Key]:
    """Return the rows of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [Key(**row) for row in csv.DictReader(file)]


def module(rows: list[Key]) -> str:
    """Return the whole module."""
    found = {row.key: DEFINITIONS[row.metric] for row in rows if row.metric}
    table = "".join(f"{key!r}: metrics.{name}," for key, name in sorted(found.items()))
    return generated_files.formatted(
        f'{CODE}CANONICAL: Final[Mapping[str, MetricDefinition]] = {{{table}}}\n"""Key -> metric."""\n'
    )


def page(rows: list[Key]) -> str:
    """Return the whole page."""
    return HEAD + _contract(rows) + _other_keys(rows) + _known(rows)


def _contract(rows: list[Key]) -> str:
    used = [name for name in DEFINITIONS if any(row.metric == name for row in rows)]
    lines = [f"| Metric | {' | '.join(SYSTEMS.values())} |", f"| --- |{' --- |' * len(SYSTEMS)}"]
    for name in used:
        cells = [
            ", ".join(f"`{row.key}`" for row in rows if (row.system, row.metric) == (system, name))
            for system in SYSTEMS
        ]
        lines.append(f"| [`{name}`](reference/metrics.md#{name}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _other_keys(rows: list[Key]) -> str:
    others = [
        f"{title}: " + ", ".join(f"`{row.key}` is `{row.metric}`" for row in rows if row.system == system) + "."
        for system, title in VARIANTS.items()
    ]
    return "\n" + "\n".join(others) + "\n"


def _known(rows: list[Key]) -> str:
    lines = [
        "\n## Groups\n",
        "The report groups the curves that have no chart of their own by the first part of their keys.\n",
        "| Group | Keys that begin with | Known keys |",
        "| --- | --- | --- |",
    ]
    number = Counter(category_of(row.key) for row in rows)
    for category, prefixes in CATEGORIES.items():
        said = ", ".join(f"`{prefix}`" for prefix in prefixes)
        lines.append(f"| {category} | {said} | {number[category]} |")
    lines.append(f"| other | | {number['other']} |")
    sources = Counter(row.source for row in rows if row.system in SYSTEMS)
    said = ", ".join(f"{source} ({number})" for source, number in sources.items())
    lines.append(
        f"\n`instrumentation/metric_keys.csv` has {len(rows)} keys with their units and sources: {said}. "
        "*Reconstructed* are those of Alibaba Model Studio, whose documentation names a part of them; the others "
        "follow verl's."
    )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or compare; returns the exit status."""
    rows = keys()
    files = {PAGE: page(rows), MODULE: module(rows)}
    return generated_files.main("instrumentation.metric_keys_page", TABLE.name, files, arguments)


if __name__ == "__main__":
    sys.exit(main())
