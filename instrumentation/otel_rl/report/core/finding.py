"""A finding, and a check that was made or could not be made."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from otel_rl.report.core import human, thresholds
from otel_rl.report.core.curves import STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Codes of the change of a value that is no duration, and of one that has stopped to move.
VALUE, STILL = "changed_value", "constant_value"
#: Points of a finding before its onset, and from it on.
_BEFORE, _AFTER = 3, 5
_LASTING = re.compile("^(slower|longer)(?=_)")
#: Codes of findings on all that a rank does.
_OF_RANKS = ("late_rank", "recurring_rank", "recurring_step")


class Severity(str, Enum):
    """How much a finding matters: ``notice`` is said, and is no reason to stop."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"

    @property
    def order(self) -> int:
        """0 for the gravest."""
        return list(Severity).index(self)

    def is_at_least(self, other: str) -> bool:
        """Return whether it is as grave as ``other``, or graver."""
        return self.order <= Severity(other).order


@dataclass(slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: its kind, for programs.
        text: what, where, since when and at what cost, in a sentence or two.
        section: section of the page that holds its rows.
        subject: tool, model, reward function or trainer's value that it is about, ``""`` where it is of none.
        place: server that it is about, ``""`` where it is of none.
        chart: key of the chart that shows it, or of the trainer's value in it; ``""`` where there is none.
        cost: share of the steps' (or rollouts') time, or of the trajectories, that it takes; None where not known.
        onset: first step of it.
        counts: what ``onset`` counts: steps, or log calls of the program.
        evidence: further sentences.
        symptoms: findings that it explains.
        look_at: what to look at next.
        points: values around its onset, each with its step, or its second since the epoch where it has no onset.
    """

    code: str
    severity: Severity
    text: str
    section: str
    subject: str = ""
    place: str = ""
    chart: str = ""
    cost: float | None = None
    onset: int | None = None
    ranks: list[int] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    symptoms: list[Finding] = field(default_factory=list)
    look_at: list[str] = field(default_factory=list)
    points: list[tuple[int, str]] = field(default_factory=list)
    counts: str = STEP

    def chain(self) -> Iterator[Finding]:
        """Yield it, and all that it explains."""
        yield self
        for symptom in self.symptoms:
            yield from symptom.chain()

    @property
    def gravest(self) -> Severity:
        """Severity of its chain: a symptom may be graver than its cause."""
        return min((part.severity for part in self.chain()), key=lambda severity: severity.order)


def recurring(code: str) -> str:
    """Return the code of a cost that comes and goes: ``slower_tool`` becomes ``recurring_tool``."""
    return _LASTING.sub("recurring", code)


def around(
    onset: int, x: Sequence[int], values: Sequence[float], unit: Callable[[float], str]
) -> list[tuple[int, str]]:
    """Return the points of a series that show its change at ``onset``."""
    at = bisect_left(x, onset)
    shown = slice(max(at - _BEFORE, 0), at + _AFTER)
    return list(zip(x[shown], map(unit, values[shown]), strict=True))


class CheckState(str, Enum):
    """Whether something could be looked for."""

    CHECKED = "checked"
    #: It was seen, and is no finding: in few cases, or cancelled with its rollout.
    SEEN = "below_threshold"
    TOO_LITTLE = "too_little_data"
    #: It would apply to this program, but its data is missing.
    NOT_RECORDED = "not_recorded"
    NOT_APPLICABLE = "does_not_apply"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for, or that could not be.

    Attributes:
        what: what was looked for, as a noun.
        state: whether that was possible.
        detail: what it rests on (``120 steps of 2 ranks``); where it was not possible how much it needs and has, or
            why, and what to set.
        codes: of the findings that it can lead to.
        points: how many steps, calls or samples it rests on.
        series: keys of the values that it judged: what is found of one of them by another rule is found of it too.
    """

    what: str
    state: CheckState
    detail: str
    codes: tuple[str, ...] = ()
    points: int = 0
    series: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        what: str,
        points: float,
        needed: float,
        noun: str,
        codes: tuple[str, ...] = (),
        basis: str = "",
        plural: str | None = None,
        series: tuple[str, ...] = (),
        seen: float = 0,
        without: str = "",
    ) -> Check:
        """Return a check of ``points`` values where ``needed`` are enough; ``basis`` names them in other words.

        ``seen`` of them are what was looked for, which makes no finding. ``without`` says why the
        check does not apply if there is no value at all.
        """
        if without and not points:
            return cls.not_applicable(what, without, codes)
        if points < needed:
            detail = f"needs {human.amount(needed, noun, plural)}, has {human.number(points)}"
            return cls(what, CheckState.TOO_LITTLE, detail, codes, int(points))
        state, of_them = (CheckState.SEEN, f"{human.number(seen)} of ") if seen else (CheckState.CHECKED, "")
        return cls(what, state, of_them + (basis or human.amount(points, noun, plural)), codes, int(points), series)

    def is_found(self, parts: Iterable[Finding]) -> bool:
        """Return whether one of these findings and symptoms is of its kind, or of a value that it judged."""
        codes = {*self.codes, *(recurring(code) for code in self.codes)}
        return any(part.code in codes or not {part.chart, part.subject}.isdisjoint(self.series) for part in parts)

    @classmethod
    def not_recorded(cls, what: str, reason: str, codes: tuple[str, ...] = ()) -> Check:
        """Return one that would apply; ``reason`` says why its data is missing, and what to set."""
        return cls(what, CheckState.NOT_RECORDED, reason, codes)

    @classmethod
    def not_applicable(cls, what: str, reason: str, codes: tuple[str, ...] = ()) -> Check:
        """Return one that this program cannot fail."""
        return cls(what, CheckState.NOT_APPLICABLE, reason, codes)


@dataclass(slots=True)
class Overview:
    """Findings, the most important first, and the checks behind them.

    ``extent`` says of how much: ``120 steps of 2 ranks``; ``""`` where nothing was recorded.
    """

    findings: list[Finding]
    checks: list[Check]
    extent: str = "this run"

    @property
    def worst(self) -> Severity | None:
        """Severity of the gravest finding or symptom."""
        return min((finding.gravest for finding in self.findings), key=lambda severity: severity.order, default=None)

    def marks(self) -> dict[str, list[int]]:
        """Return the steps at which something began, by the key of the chart that shows it."""
        marks: dict[str, list[int]] = {}
        for finding in self.findings:
            for each in finding.chain():
                if each.chart and each.onset is not None and each.onset not in marks.get(each.chart, ()):
                    marks.setdefault(each.chart, []).append(each.onset)
        return marks


def unexplained(constant: list[Finding], changed: list[Finding]) -> list[Finding]:
    """Return what is slower all along and no change explains; the rest becomes a symptom of the change."""
    left = []
    for finding in constant:
        cause = next((change for change in changed if _is_the_same(finding, change)), None)
        if cause is None:
            left.append(finding)
        else:
            cause.symptoms.append(finding)
    return left


def _is_the_same(finding: Finding, change: Finding) -> bool:
    if change.severity is Severity.NOTICE:
        # It costs nothing, and the other does.
        return False
    if finding.place:
        return any(finding.place == part.place for part in (change, *change.symptoms))
    if finding.subject:
        return any(finding.subject == part.subject for part in (change, *change.symptoms))
    return bool(finding.ranks) and finding.ranks == change.ranks and finding.code in _OF_RANKS


def take_over(named: list[Finding], changes: list[Finding], is_same: Callable[[Finding, Finding], bool]) -> None:
    """Merge findings that have a name, as those of rules, with the changes of the same values at the same step.

    A top-level change becomes a symptom of the named finding, together with its own symptoms. If the change is itself a
    symptom of another change, the named finding replaces it there and is removed from ``named``.
    """
    for finding in list(named):
        for change in list(changes):
            if is_same(finding, change) and are_at_once(finding, change):
                changes.remove(change)
                finding.symptoms += [change, *change.symptoms]
                change.symptoms = []
                continue
            same = [one for one in change.symptoms if is_same(finding, one) and are_at_once(finding, one)]
            if same and finding in named:
                change.symptoms = [one for one in change.symptoms if one not in same]
                change.symptoms.append(finding)
                named.remove(finding)


def are_at_once(one: Finding, other: Finding) -> bool:
    """Return whether both are known to begin within a few steps."""
    if one.onset is None or other.onset is None:
        return False
    return abs(one.onset - other.onset) <= thresholds.TOGETHER
