"""What was recorded of a system's job, as the tests of verl, SkyRL and slime compare it with the system's own log."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from support import own_command

from otel_rl.semconv import attributes as names
from otel_rl.store.reader import Log, Reader, Span, find_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_rl.store.reader import Record


class RecordedJob:
    """Steps, phases, rows and spans of the run in ``folder/otel-rl/run``; ``scope`` records the phases."""

    def __init__(self, folder: Path, scope: str) -> None:
        self.folder = folder
        self._scope = scope
        #: Step -> seconds; step and phase -> seconds.
        self.steps: dict[int, float] = {}
        self.phases: dict[tuple[int, str], float] = defaultdict(float)
        #: Step, key and value of all that was logged.
        self.recorded: list[tuple[int, str, Any]] = []
        #: Samples that are trained on, by the id of the rollout, and those of evaluations.
        self.rows: dict[str, dict[str, Any]] = {}
        self.evaluated: list[dict[str, Any]] = []
        self.spans: list[Span] = []
        for record in Reader(find_run(folder / "otel-rl" / "run")).records():
            self.add(record)

    def add(self, record: Record) -> None:
        """Add what one record has."""
        if isinstance(record, Span):
            self._add_span(record)
        elif isinstance(record, Log):
            iteration = record.attributes.get(names.RL_LOOP_ITERATION)
            if record.event == "rl.step":
                self.recorded += [(iteration, key, value) for key, value in record.body.items()]
            elif record.event == "rl.trajectories":
                for row in _rows(record):
                    self._add_row({**row, "step": iteration})

    @property
    def values(self) -> dict[tuple[int, str], Any]:
        """Logged values by step and key."""
        return {(step, key): value for step, key, value in self.recorded}

    def _add_span(self, span: Span) -> None:
        self.spans.append(span)
        iteration = span.attributes.get(names.RL_LOOP_ITERATION)
        if span.name == "rl.loop":
            self.steps[iteration] = span.seconds
        elif span.scope == self._scope and names.RL_PHASE in span.attributes:
            self.phases[iteration, span.attributes[names.RL_PHASE]] += span.seconds

    def _add_row(self, row: dict[str, Any]) -> None:
        if row.get(names.RL_ROLLOUT_EVALUATION):
            self.evaluated.append(row)
        else:
            self.rows[row[names.RL_ROLLOUT_ID]] = row


def _rows(log: Log) -> Iterator[dict[str, Any]]:
    """Return the rows of a record; columns of another length name rewards and metrics."""
    count = len(log.body[names.RL_ROLLOUT_ID])
    columns = {key: values for key, values in log.body.items() if len(values) == count}
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def assert_healthy(folder: Path, output: Path) -> None:
    """Assert that the report of the run has neither a warning nor a critical finding, and that it ended in order."""
    said = own_command.otel_rl(output, "report", folder / "otel-rl" / "run", "-o", output / "r.html").stderr
    assert "critical:" not in said
    assert "warning:" not in said
    assert "in order" in own_command.otel_rl(output, "runs", folder / "otel-rl").stdout
