"""What the processes of a run do at this moment, and what is wrong with that."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    #: The part of the run that it is in (``in init_process_group (world size 2) for 90 s``), and for how many seconds.
    part: str = ""
    part_seconds: float = 0.0
    #: How it ended, where it did not in order.
    cause: str = ""
    #: When it has recorded its end, in ns since the epoch; 0: it has not.
    ended: int = 0
    lifetime: Lifetime | None = None

    @property
    def place(self) -> str:
        """Where it is, for a sentence; ``""`` where that is not known."""
        if self.step is None:
            return self.phase
        return f"step {self.step}{f' ({self.phase})' if self.phase else ''}"

    @property
    def is_current(self) -> bool:
        """True where its step and phase are those of now; else of the copy of its ring, or of its files."""
        return self.still is not None

    @property
    def is_alive(self) -> bool:
        """True where it is seen to run, or to be stopped."""
        return self.state in (ProcessState.RUNNING, ProcessState.STOPPED)

    def as_json(self) -> dict[str, Any]:
        """Return it for the page."""
        content = asdict(self)
        del content["lifetime"]
        return {**content, "state": self.state.value}

    @classmethod
    def of_json(cls, content: Mapping[str, Any], seconds: float) -> ProcessSign:
        """Return what :meth:`as_json` has returned so many seconds ago, as it is now."""
        silent = content["silent"]
        later = {"state": ProcessState(content["state"]), "silent": silent if silent is None else silent + seconds}
        return cls(**{**content, **later})


@dataclass(slots=True)
class LiveFinding:
    """One thing that is wrong at this moment.

    Attributes:
        code: ``gone``, ``ended``, ``stopped``, ``waiting``, ``hang``, ``hanging_call``, ``late_rank`` or ``silent``.
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

    def last_step(self, recorded: int | None) -> int | None:
        """Return the last step: of the rings, else the later one of what is ``recorded`` and of copies of rings."""
        current = [sign.step for sign in self.processes if sign.is_current and sign.step is not None]
        older = [step for step in (recorded, *(sign.step for sign in self.processes)) if step is not None]
        return max(current or older, default=None)

    def as_json(self) -> dict[str, Any]:
        """Return it for the page."""
        return {
            "state": self.state,
            "processes": [process.as_json() for process in self.processes],
            "findings": [finding.as_json() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class RecordedStatus:
    """What the processes had recorded of themselves at ``moment``, of the monotonic clock, as JSON."""

    content: Mapping[str, Any] = field(default_factory=dict)
    moment: float = 0.0

    @property
    def step(self) -> int | None:
        """The last step."""
        return self.content.get("step")

    def standing(self, now: float) -> Standing:
        """Return how they stand now, if nothing has happened since."""
        processes = self.content.get("processes", ())
        return Standing([ProcessSign.of_json(one, now - self.moment) for one in processes])
