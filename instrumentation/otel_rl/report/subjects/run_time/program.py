"""The program of the run, as the leading process recorded it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.core.collected import asked_once
from otel_rl.report.subjects.run_time.shares import FACTS
from otel_rl.semconv import attributes as names
from otel_rl.store.reader.otlp_values import list_of

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Log

#: Characters of the command line in the head of the page.
_LONGEST_COMMAND = 400
_SHORT_COMMIT = 12


def command(collected: Collected) -> str | None:
    """Return the program and its arguments as a shell takes them; None where they were not recorded."""
    values = map(str, list_of(_attributes(collected), names.PROCESS_COMMAND_ARGS))
    # What was removed stays readable.
    words = [value if "***" in value and " " not in value else shlex.quote(value) for value in values]
    line = " ".join(words)
    return (line if len(line) <= _LONGEST_COMMAND else f"{line[:_LONGEST_COMMAND]} ...") or None


def facts(collected: Collected) -> list[tuple[str, str | None]]:
    """Return (name, value) for the head of the page; None for what is not known."""
    values = _attributes(collected)
    texts = {name: str(value) for name, value in values.items() if value is not None}
    return [
        ("Model", texts.get(names.RL_MODEL_NAME)),
        ("Data set", texts.get(names.RL_DATASET_NAME)),
        ("Seed", texts.get(names.RL_RUN_SEED)),
        ("Commit", texts.get(names.VCS_REF_HEAD_REVISION, "")[:_SHORT_COMMIT]),
        ("Versions", human.listed(list(map(str, list_of(values, names.RL_RUN_LIBRARY_VERSIONS))))),
    ]


@asked_once
def _attributes(collected: Collected) -> dict[str, Any]:
    """Return the last event on the program, of the latest attempt; of several processes that of a trainer."""
    logs = (log for log in collected.tables.events(*FACTS) if names.PROCESS_CREATION_TIME in log.attributes)
    latest = max(logs, key=_order, default=None)
    return {} if latest is None else latest.attributes


def _order(log: Log) -> tuple[Any, ...]:
    return log.process.attempt, names.RL_RUN_SEED in log.attributes, log.time
