"""What the processes of a run do at this moment, and what is wrong with that."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human

if TYPE_CHECKING:
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.report.core.finding import Severity


class ProcessState(str, Enum):
    """Whether a process runs."""

    RUNNING = "running"
    #: By a signal, or by a debugger.
    STOPPED = "stopped"
    ENDED = "ended"
    #: It does not run, and has left no end.
    GONE = "gone"
    #: It runs on another machine, or not any more.
    UNKNOWN = "unknown"


@dataclass(slots=True)
class ProcessSign:
    """The last sign of one process; times in s before now, None where not known."""

    label: str
    rank: int | None
    host: str
    pid: int | None
    state: ProcessState
    #: Its step, and the open phases in it: ``train``.
    step: int | None = None
    phase: str = ""
    silent: float | None = None
    #: Since it last began or ended a step or phase.
    still: float | None = None
    #: How it ended, where it did not in order.
    cause: str = ""
    lifetime: Lifetime | None = None

    @property
    def place(self) -> str:
        """Where it is, for a sentence; ``""`` where that is not known."""
        if self.step is None:
            return ""
        return f"step {self.step}{f' ({self.phase})' if self.phase else ''}"

    @property
    def is_alive(self) -> bool:
        """True where it is seen to run, or to be stopped."""
        return self.state in (ProcessState.RUNNING, ProcessState.STOPPED)

    def as_json(self) -> dict[str, Any]:
        """Return it for the page."""
        content = asdict(self)
        del content["lifetime"]
        return {**content, "state": self.state.value}


@dataclass(slots=True)
class LiveFinding:
    """One thing that is wrong at this moment.

    Attributes:
        code: ``gone``, ``ended``, ``stopped``, ``hang``, ``late_rank`` or ``silent``.
        text: what, where, who waits, since when, in a sentence or two.
        place: where it is: ``step 8 (train)``.
        step: of the place.
        since: its begin in ns since the epoch; 0: not known.
        cost: what it costs: ``1 rank waits``.
    """

    code: str
    severity: Severity
    title: str
    text: str
    ranks: list[int] = field(default_factory=list)
    place: str = ""
    step: int | None = None
    since: int = 0
    cost: str = ""
    evidence: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it for the page and for notifications."""
        return {**asdict(self), "severity": self.severity.value, "onset": human.moment(self.since)}


@dataclass(slots=True)
class Standing:
    """All processes of the latest attempt, ranks first, and the findings, the gravest first."""

    processes: list[ProcessSign] = field(default_factory=list)
    findings: list[LiveFinding] = field(default_factory=list)

    @property
    def state(self) -> str:
        """``running``, ``ended``, ``gone`` (without an end), ``unknown`` or, without processes, ``starting``."""
        if not self.processes:
            return "starting"
        states = [process.state for process in self.processes]
        if any(process.is_alive for process in self.processes):
            return "running"
        left = next((state for state in (ProcessState.UNKNOWN, ProcessState.GONE) if state in states), None)
        return str(left.value) if left is not None else "ended"

    @property
    def is_over(self) -> bool:
        """True where every process has ended or is gone."""
        return self.state in ("ended", "gone")

    def as_json(self) -> dict[str, Any]:
        """Return it for the page."""
        return {
            "state": self.state,
            "processes": [process.as_json() for process in self.processes],
            "findings": [finding.as_json() for finding in self.findings],
        }
