"""A subject of the report, and one pass over a run for all: what subjects ask for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from otel_rl.report.core import flight_rings, step_rewards, timeline
from otel_rl.report.core.finding import Finding
from otel_rl.report.core.flight_rings import FlightRings
from otel_rl.report.core.kept_answers import EarlierLooks
from otel_rl.report.core.loops import Loops
from otel_rl.report.core.steps import METRICS as STEP_METRICS
from otel_rl.report.core.totals import MetricTotals
from otel_rl.semconv import metrics
from otel_rl.store.reader import Point, Reader, Span
from otel_rl.store.tables import RunTables, place

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.report.core.blocks import PageBlock, Section
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.finding import Check
    from otel_rl.report.core.steps import Steps
    from otel_rl.semconv.definitions import MetricDefinition
    from otel_rl.store.reader import Record

_OWN_METRICS = (metrics.RL_TRAIN_STEPS, metrics.RL_TRAIN_TOKENS, metrics.RL_SAMPLE_SAMPLES)


_Answer = TypeVar("_Answer")
_Given = ParamSpec("_Given")


def asked_once(
    function: Callable[Concatenate[Collected, _Given], _Answer],
) -> Callable[Concatenate[Collected, _Given], _Answer]:
    """Return a function of what was collected that is asked once with the same arguments."""

    @functools.wraps(function)
    def _ask(collected: Collected, /, *args: _Given.args, **options: _Given.kwargs) -> _Answer:
        key = (function, args, *options.items())
        if key not in collected.answers:
            collected.answers[key] = function(collected, *args, **options)
        answer: _Answer = collected.answers[key]
        return answer

    return _ask


#: What the subjects before this one have found, by their names.
Known: TypeAlias = Mapping[str, list[Finding]]


def _no_findings(_collected: Collected, _known: Known) -> list[Finding]:
    return []


def _no_checks(_collected: Collected) -> list[Check]:
    return []


def _no_traces(_collected: Collected) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Subject:
    """One subject; every part is optional.

    Attributes:
        name: of its folder in :mod:`otel_rl.report.subjects`.
        metrics: metrics of which it reads ``collected.totals``.
        findings: returns what is wrong, given what the subjects before it have found.
        checks: returns what was looked for, and why it could not be observed.
        sections: key of a section of the page -> function that builds it.
        blocks: key of a section of another subject -> function that builds blocks at its end.
        traces: returns ids of traces whose spans it shows: those of ``collected.traces``.
    """

    name: str
    metrics: tuple[MetricDefinition, ...] = ()
    findings: Callable[[Collected, Known], list[Finding]] = _no_findings
    checks: Callable[[Collected], list[Check]] = _no_checks
    sections: Mapping[str, Callable[[Collected, Charts], Section]] = field(default_factory=dict)
    blocks: Mapping[str, Callable[[Collected, Charts], list[PageBlock]]] = field(default_factory=dict)
    traces: Callable[[Collected], Iterable[str]] = _no_traces


class Collected:
    """What ``subjects`` ask for of all records of ``reader``, and of PyTorch's dumps at ``torch_dumps``."""

    def __init__(self, reader: Reader, subjects: Iterable[Subject], torch_dumps: Path | None = None) -> None:
        self.reader = reader
        self.subjects = tuple(subjects)
        self._torch_dumps = torch_dumps
        self.tables = RunTables(place.folder())
        self.loops = Loops(self.tables)
        #: What was asked by now, by the function and its arguments.
        self.answers: dict[Any, Any] = {}
        #: Caches of subjects that survive :meth:`settle`.
        self.kept: dict[Any, Any] = {}
        #: What was found in series that grow, kept from one look at them to the next where a run is followed.
        self.earlier_looks = EarlierLooks()
        #: Of a view: the steps that it is on.
        self.only: Steps | None = None
        #: Attempts that a later one follows.
        self.superseded: frozenset[tuple[int, ...]] = frozenset()
        of_subjects = (metric for subject in self.subjects for metric in subject.metrics)
        self.totals = MetricTotals((*_OWN_METRICS, *STEP_METRICS, *of_subjects))
        self.rings = FlightRings()
        #: Spans of the traces that subjects show, by id.
        self.traces: dict[str, list[Span]] = {}

    @property
    def steps(self) -> Steps:
        """The steps that the page shows: the last stretch of the main loop, or the one of :meth:`view`."""
        return self.only or self.loops.main

    def view(self, steps: Steps) -> Collected:
        """Return a view on nothing but these steps."""
        view = copy(self)
        view.only, view.rings, view.answers = steps, FlightRings(), {}
        return view

    def read(self, advance: Callable[[int], object]) -> Collected:
        """Load the run with all that a page needs, and return itself; ``advance`` is called with the bytes read.

        Raises:
            UnusableInput: not one of the files can be read.
        """
        self.load_tables(advance)
        return self.complete()

    def load_tables(self, advance: Callable[[int], object]) -> RunTables:
        """Load the whole run into the tables, and return them; ``advance`` is called with the bytes read.

        Raises:
            UnusableInput: not one of the files can be read.
        """
        for record in self.reader.records(advance):
            self.add(record)
        self.settle()
        return self.tables

    def add(self, record: Record) -> None:
        """Take in one record."""
        self.tables.add(record)
        if isinstance(record, Point):
            self.totals.add(record)

    def settle(self) -> None:
        """Let subjects ask for all that was added."""
        self.answers.clear()
        self.tables.settle()
        if self.tables.has_new_samples:
            self.tables.put_scalars(step_rewards.log_calls(self.tables))
        self.loops.settle()
        if self.tables.changed_steps is None:
            self.kept.clear()
        self.superseded = self.loops.superseded(process.attempt for process in self.reader.processes)
        self.tables.supersede(self.superseded)

    def complete(self) -> Collected:
        """Read what a page needs beside the settled tables, and return itself."""
        self._read_traces()
        self.rings = flight_rings.read(self.reader.source, self._torch_dumps, self.superseded)
        return self

    def _read_traces(self) -> None:
        wanted = {trace for subject in self.subjects for trace in subject.traces(self)} - {""}
        self.traces = timeline.by_trace(self.reader.traces(wanted)) if wanted else {}
