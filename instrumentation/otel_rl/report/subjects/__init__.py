"""The subjects of the report, a folder each.

Modules of a subject, where it has that part:
    aggregate, or a name of what it has: its numbers, from the tables of the run.
    finding: what is wrong, and what was looked for.
    section: its section of the page.

Other modules:
    overview: all findings in order, and what was checked.
    workload: what kind of program a run is: which checks apply to it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Subject

#: Folders of the subjects. In this order they look for findings, and each knows what those before it have found.
SUBJECTS = (
    "endings",
    "weight_syncs",
    "changes",
    "calls",
    "ranks",
    "errors",
    "trajectories",
    "weight_versions",
    "event_loops",
    "telemetry",
    "health",
    "run_time",
    "steps",
    "state_timeline",
    "training",
    "rollouts",
    "engines",
    "rewards",
    "memory",
    "configuration",
    "checkpoints",
    "processes",
)

#: Keys of the sections in reading order; others come last.
SECTIONS = (
    "ending",
    "run_time",
    "steps",
    "states",
    "training",
    "ranks",
    "rollouts",
    "trajectories",
    "tools",
    "models",
    "engines",
    "rewards",
    "pressure",
    "checkpoints",
    "errors",
    "configuration",
    "processes",
    "telemetry",
)

#: Subjects in the order in which their checks are listed; others come last.
CHECKS = (
    "endings",
    "errors",
    "steps",
    "ranks",
    "rewards",
    "rollouts",
    "event_loops",
    "calls",
    "trajectories",
    "weight_syncs",
    "weight_versions",
    "telemetry",
    "health",
    "training",
)


def load() -> tuple[Subject, ...]:
    """Import the subjects: only a report needs all of them."""
    return tuple(import_module(f"{__name__}.{name}").SUBJECT for name in SUBJECTS)
