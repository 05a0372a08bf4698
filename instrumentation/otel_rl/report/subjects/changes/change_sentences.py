"""Changes as findings: "score_b on rank 1 takes 150 ms since step 15 (0.4 ms before; rank 0 unchanged)"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Finding, Severity
from otel_rl.report.core.steps import BETWEEN, UNCOVERED
from otel_rl.report.subjects.changes.series import SeriesKind

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.changes.level_changes import LevelChange

#: Kind -> code of the finding, section of its rows, key of its chart.
_PLACES = {
    SeriesKind.MODEL: ("slower_model", "models", "model-seconds"),
    SeriesKind.FIRST_CHUNK: ("slower_model", "models", "model-first-chunk"),
    SeriesKind.RETRIED: ("retried_model", "models", "model-retried"),
    SeriesKind.FAILED: ("failing_model", "models", "model-failed"),
    SeriesKind.TOOL: ("slower_tool", "tools", "tool-seconds"),
    SeriesKind.REWARD: ("slower_reward", "rewards", "reward-seconds"),
    SeriesKind.PAUSE: ("longer_garbage_collection", "pressure", ""),
    SeriesKind.PHASE: ("slower_phase", "steps", "phase-seconds"),
    SeriesKind.WORK: ("slower_rank", "ranks", "own-work"),
    SeriesKind.ROLLOUT: ("slower_rollouts", "rollouts", "rollout-seconds"),
    SeriesKind.STEP: ("slower_step", "steps", "phase-seconds"),
    SeriesKind.WAIT: ("slower_collectives", "ranks", ""),
}
_LOOK_AT = {
    SeriesKind.MODEL: "The server's own metrics from that step on: queue, running requests, cache memory, restarts.",
    SeriesKind.TOOL: "What the tool calls, and whether its inputs grew.",
    SeriesKind.REWARD: "The function on that rank: what it loads, calls or waits for.",
    SeriesKind.PAUSE: "What keeps allocating: the number of objects that live from step to step.",
    SeriesKind.PHASE: "The timeline of the slowest step.",
    SeriesKind.WAIT: "The network between the nodes: no rank came later than before.",
}
_LISTED_RANKS = 4


def findings(found: list[LevelChange], collected: Collected) -> list[Finding]:
    """One finding for each change."""
    start = min((process.first for process in collected.reader.processes if process.first), default=0) // 10**9
    several = len([rank for rank in collected.steps.ranks if rank is not None]) > 1
    return [_finding(one, start, several=several) for one in found]


def _finding(one: LevelChange, start: int, *, several: bool) -> Finding:
    code, section, chart = _PLACES[one.kind]
    severity = Severity.CRITICAL if one.share >= thresholds.CRITICAL_SHARE else Severity.WARNING
    if one.kind is SeriesKind.FIRST_CHUNK or any(other.kind is SeriesKind.FIRST_CHUNK for other in one.with_it):
        chart = "model-first-chunk"
    return Finding(
        code=code,
        severity=severity,
        text=_sentence(one, start, several=several),
        section=section,
        subject=_about(one),
        chart=chart,
        cost=one.share or None,
        onset=one.onset if one.by_step else None,
        ranks=[rank for rank in one.ranks if rank is not None],
        symptoms=[_finding(symptom, start, several=several) for symptom in one.symptoms],
        look_at=[_LOOK_AT[kind]] if (kind := _group(one.kind)) in _LOOK_AT else [],
    )


def _about(one: LevelChange) -> str:
    if one.kind.is_of_model:
        return sentences.model(one.name)
    return one.name if one.kind in (SeriesKind.TOOL, SeriesKind.REWARD) else ""


def _group(kind: SeriesKind) -> SeriesKind:
    return SeriesKind.MODEL if kind.is_of_model else kind


def _sentence(one: LevelChange, start: int, *, several: bool) -> str:
    if one.kind.is_of_model:
        return _of_model(one, start)
    return (
        f"{_subject(one)}{_where(one, several=several)} {_verb(one)} {human.duration(one.after)}{_per(one)}"
        f" {_when(one, start)} ({_before(one, several=several)}): {_cost(one)}."
    )


def _before(one: LevelChange, *, several: bool) -> str:
    unchanged = f"; {_ranks(one.unchanged)} unchanged" if several and one.unchanged else ""
    return f"{human.duration(one.before)} before{unchanged}"


def _subject(one: LevelChange) -> str:
    if one.kind is SeriesKind.REWARD:
        return f"Reward function {one.name}"
    if one.kind is SeriesKind.TOOL:
        return f"Tool {one.name}"
    if one.kind is SeriesKind.PHASE:
        return _TIMES.get(one.name, f"Phase {one.name}")
    return _SUBJECTS[one.kind]


_TIMES = {UNCOVERED: "Time outside of all phases", BETWEEN: "Time between steps"}
_SUBJECTS = {
    SeriesKind.PAUSE: "Garbage collection",
    SeriesKind.WORK: "Work outside of collectives",
    SeriesKind.ROLLOUT: "A rollout",
    SeriesKind.STEP: "A step",
    SeriesKind.WAIT: "Time in collectives",
}


def _verb(one: LevelChange) -> str:
    return "is" if one.kind is SeriesKind.WAIT or one.name in _TIMES else "takes" if one.lasts else "took"


def _where(one: LevelChange, *, several: bool) -> str:
    ranks = [rank for rank in one.ranks if rank is not None]
    if not several or not ranks:
        return ""
    return f" on {_ranks(ranks)}" if one.unchanged else " on all ranks" if len(ranks) > 1 else f" on rank {ranks[0]}"


def _ranks(ranks: list[int]) -> str:
    if len(ranks) > _LISTED_RANKS:
        return f"{len(ranks)} ranks"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))}"


def _per(one: LevelChange) -> str:
    if one.kind is SeriesKind.TOOL:
        return " a call"
    return " a step" if one.kind in (SeriesKind.PHASE, SeriesKind.WORK, SeriesKind.PAUSE, SeriesKind.WAIT) else ""


def _when(one: LevelChange, start: int) -> str:
    if not one.by_step:
        first, last = (human.duration(max(moment - start, 0)) for moment in (one.onset, one.last))
        return f"since {first} after the start" if one.lasts else f"from {first} to {last} after the start"
    about = "about " if one.width > 1 else ""
    if one.lasts:
        return f"since {about}step {human.number(one.onset)}"
    return f"from {about}step {human.number(one.onset)} to {human.number(one.last + one.width - 1)}"


def _cost(one: LevelChange) -> str:
    share = human.percent(one.share)
    if one.in_rollouts:
        return f"{share} of the rollouts' time"
    if not one.by_step:
        return f"{share} of the time"
    if one.all_lose:
        return f"all ranks lose {share} of the step"
    ranks = [rank for rank in one.ranks if rank is not None]
    if one.unchanged and ranks:
        return f"{_ranks(ranks)} {'loses' if len(ranks) == 1 else 'lose'} {share} of the step"
    return f"{share} of the step"


def _of_model(one: LevelChange, start: int) -> str:
    """Latency, time to the first chunk, retries and failures of one model at one server as one sentence."""
    parts = {each.kind: each for each in (*one.with_it, one)}
    where = f"of model {sentences.model(one.name)}" + (f" at {one.place}" if one.place else "")
    said = []
    first_chunk, latency = parts.get(SeriesKind.FIRST_CHUNK), parts.get(SeriesKind.MODEL)
    head = first_chunk or latency
    if head is not None:
        what = "Time to the first chunk" if head is first_chunk else "The duration of calls"
        said.append(f"{what} {where} rose {_from_to(head)} {_when(head, start)}")
    retried, failed = parts.get(SeriesKind.RETRIED), parts.get(SeriesKind.FAILED)
    calls = "of the calls" if said else f"of the calls {where}"
    if retried is not None:
        said.append(f"{human.percent(retried.after)} {calls} were retried{_rate_since(retried, one, start)}")
    if failed is not None:
        said.append(f"{human.percent(failed.after)} {calls} failed{_rate_since(failed, one, start)}")
    cost = f": {_cost(one)}" if one.share else ""
    return f"{'; '.join(said)}{cost}."


def _from_to(one: LevelChange) -> str:
    return f"from {human.duration(one.before)} to {human.duration(one.after)}"


def _rate_since(rate: LevelChange, head: LevelChange, start: int) -> str:
    since = "" if rate.onset == head.onset and rate is not head else f" {_when(rate, start)}"
    return f"{since} ({human.percent(rate.before)} before)"
