"""Changes as findings: "score_b on rank 1 takes 150 ms since step 15 (0.4 ms before; rank 0 unchanged)"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human, sentences, thresholds
from otel_rl.report.core.finding import Finding, Severity, around
from otel_rl.report.core.steps import BETWEEN, UNCOVERED
from otel_rl.report.subjects.changes.series import SeriesKind
from otel_rl.semconv.attributes import RlPhaseValues as Phase

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.changes.series import LevelChange

#: Kind -> code of the finding, section of its rows, key of its chart.
PLACES = {
    SeriesKind.MODEL: ("slower_model", "models", "model-seconds"),
    SeriesKind.FIRST_CHUNK: ("slower_model", "models", "model-first-chunk"),
    SeriesKind.RETRIED: ("retried_model", "models", "model-retried"),
    SeriesKind.FAILED: ("failing_model", "models", "model-failed"),
    SeriesKind.TOOL: ("slower_tool", "tools", "tool-seconds"),
    SeriesKind.REWARD: ("slower_reward", "rewards", "reward-seconds"),
    SeriesKind.PAUSE: ("longer_garbage_collection", "pressure", ""),
    SeriesKind.FIRST_CALL: ("slower_first_call", "rollouts", "rollout-seconds"),
    SeriesKind.PHASE: ("slower_phase", "steps", "phase-seconds"),
    SeriesKind.WORK: ("slower_rank", "ranks", "own-work"),
    SeriesKind.ROLLOUT: ("slower_rollouts", "rollouts", "rollout-seconds"),
    SeriesKind.STEP: ("slower_step", "steps", "phase-seconds"),
    SeriesKind.WAIT: ("slower_collectives", "ranks", ""),
}
_LOOK_AT = {
    SeriesKind.MODEL: "The server's own metrics from that step on: queue, running requests, cache memory, restarts.",
    SeriesKind.TOOL: "What the tool calls, and whether its inputs grew.",
    SeriesKind.REWARD: "The function: what it loads, calls or waits for.",
    SeriesKind.PAUSE: "What keeps allocating: the number of objects that live from step to step.",
    SeriesKind.FIRST_CALL: "What a rollout waits for before it calls: a semaphore, a pool, a queue, a sandbox.",
    SeriesKind.PHASE: "The timeline of the slowest step.",
    SeriesKind.WAIT: "The network between the nodes: no rank came later than before.",
}
_LOOK_AT_PHASE = {
    Phase.DATA_WAIT: "The data loader: its workers, storage, and what is done with a sample or batch.",
    UNCOVERED: "What the loop does besides its phases: callbacks, hooks, logging, uploads.",
    BETWEEN: "What the program does between its steps: callbacks, hooks, logging, uploads.",
}
_LISTED_RANKS = 4
#: First steps of a guessed loop, in which it warms up.
_EARLY = 8
#: Share of the steps from which on a phase is said to be in each.
_NEARLY_ALL = 0.9


def findings(changes: list[LevelChange], collected: Collected) -> list[Finding]:
    """Return one finding for each change."""
    start = min((process.first for process in collected.reader.processes if process.first), default=0) // 10**9
    several = len([rank for rank in collected.steps.ranks if rank is not None]) > 1
    found = [_finding(change, start, several=several) for change in changes]
    if collected.steps.guessed:
        for finding, change in zip(found, changes, strict=True):
            if change.name == UNCOVERED or change.kind is SeriesKind.STEP:
                # The program may have paused on purpose.
                most = Severity.NOTICE if _is_early(change, collected) else Severity.WARNING
                for one in (finding, *finding.symptoms):
                    one.severity = max(one.severity, most, key=lambda severity: severity.order)
                finding.evidence.append(sentences.PAUSES)
    return found


def _is_early(change: LevelChange, collected: Collected) -> bool:
    first = min((line.x[0] for line in collected.steps.by_rank.values() if line.x), default=change.onset)
    return change.by_step and change.onset < first + _EARLY


def _finding(change: LevelChange, start: int, *, several: bool) -> Finding:
    code, section, chart = PLACES[change.kind]
    if change.kind is SeriesKind.FIRST_CHUNK or any(other.kind is SeriesKind.FIRST_CHUNK for other in change.with_it):
        chart = "model-first-chunk"
    return Finding(
        code=code,
        severity=_severity(change),
        text=_sentence(change, start, several=several),
        section=section,
        subject=about(change.kind, change.name),
        place=change.place,
        chart=chart,
        cost=change.share or None,
        onset=change.onset if change.by_step else None,
        ranks=[rank for rank in change.ranks if rank is not None],
        symptoms=[_symptom(symptom, start, several=several) for symptom in change.symptoms],
        evidence=[change.reason] * bool(change.reason),
        look_at=[] if change.reason else _look_at_change(change),
        points=_points(change),
    )


def _points(change: LevelChange) -> list[tuple[int, str]]:
    if (series := change.series) is None:
        return []
    return around(change.onset, series.line.x, series.values, human.percent if change.kind.is_rate else human.duration)


def _severity(change: LevelChange) -> Severity:
    if change.hidden or change.reason:
        return Severity.NOTICE
    return Severity.CRITICAL if change.share >= thresholds.CRITICAL_SHARE else Severity.WARNING


def _symptom(change: LevelChange, start: int, *, several: bool) -> Finding:
    finding = _finding(change, start, several=several)
    if change.kind is SeriesKind.WAIT:
        # A rank did come later, or something else explains it.
        finding.look_at = []
    return finding


def _look_at_change(change: LevelChange) -> list[str]:
    if change.kind is SeriesKind.WORK and change.unchanged:
        ranks = _ranks([rank for rank in change.ranks if rank is not None])
        return [f"Host, device and data of {ranks}, against those of the others."]
    return look_at(change.kind, change.name)


def look_at(kind: SeriesKind, name: str) -> list[str]:
    """Return what to look at where a series of this kind takes longer."""
    if name in _LOOK_AT_PHASE:
        return [_LOOK_AT_PHASE[name]]
    return [_LOOK_AT[kind]] if (kind := _group(kind)) in _LOOK_AT else []


def about(kind: SeriesKind, name: str) -> str:
    """Return the tool, reward function, model, evaluation or checkpoint that a series is of; ``""`` for others."""
    if kind.is_of_model:
        return sentences.model(name)
    is_named = kind in (SeriesKind.TOOL, SeriesKind.REWARD) or name in (Phase.EVALUATE, Phase.CHECKPOINT)
    return name if is_named else ""


def _group(kind: SeriesKind) -> SeriesKind:
    return SeriesKind.MODEL if kind.is_of_model else kind


def _sentence(change: LevelChange, start: int, *, several: bool) -> str:
    if change.kind.is_of_model:
        return _of_model(change, start)
    if change.grows:
        return (
            f"{noun(change.kind, change.name)}{_where(change, several=several)} takes longer and longer"
            f" {_when(change, start)}: from {human.duration(change.before)} to {human.duration(change.after)}"
            f"{_per(change)}: {_cost(change)}."
        )
    return (
        f"{noun(change.kind, change.name)}{_where(change, several=several)} {_verb(change)}"
        f" {human.duration(change.after)}{_per(change)}"
        f" {_when(change, start)} ({_before(change, several=several)}): {_cost(change)}."
    )


def _before(change: LevelChange, *, several: bool) -> str:
    unchanged = f"; {_ranks(change.unchanged)} unchanged" if several and change.unchanged else ""
    return f"{human.duration(change.before)} before{unchanged}"


def noun(kind: SeriesKind, name: str, place: str = "") -> str:
    """Return what a sentence about a series begins with."""
    if kind.is_of_model:
        return f"Model {sentences.model(name)}{f' at {place}' if place else ''}"
    if kind is SeriesKind.REWARD:
        return f"Reward function {name}"
    if kind is SeriesKind.TOOL:
        return f"Tool {name}"
    if kind is SeriesKind.PHASE:
        return _TIMES.get(name, f"Phase {name}")
    return _SUBJECTS[kind]


_TIMES = {UNCOVERED: "Time outside of all phases", BETWEEN: "Time between steps"}
_SUBJECTS = {
    SeriesKind.PAUSE: "Garbage collection",
    SeriesKind.FIRST_CALL: "Waiting of a rollout before its first call",
    SeriesKind.WORK: "Work outside of collectives",
    SeriesKind.ROLLOUT: "A rollout",
    SeriesKind.STEP: "A step",
    SeriesKind.WAIT: "Time in collectives",
}


def _verb(change: LevelChange) -> str:
    return "is" if change.kind is SeriesKind.WAIT or change.name in _TIMES else "takes" if change.lasts else "took"


def _where(change: LevelChange, *, several: bool) -> str:
    ranks = [rank for rank in change.ranks if rank is not None]
    if not several or not ranks:
        return ""
    return f" on {_ranks(ranks)}" if change.unchanged else " on all ranks" if len(ranks) > 1 else f" on rank {ranks[0]}"


def _ranks(ranks: list[int]) -> str:
    if len(ranks) > _LISTED_RANKS:
        return f"{len(ranks)} ranks"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))}"


def _per(change: LevelChange) -> str:
    if change.kind is SeriesKind.TOOL:
        return " a call"
    if change.kind is SeriesKind.PHASE and change.found_in is not None:
        have, steps = change.found_in
        if have < _NEARLY_ALL * steps:
            # A loop with several optimizer steps for each batch has as many guessed steps, and waits for data in one.
            return f" in {have} of {human.amount(steps, 'step')}"
    return " a step" if change.kind in (SeriesKind.PHASE, SeriesKind.WORK, SeriesKind.PAUSE, SeriesKind.WAIT) else ""


def _when(change: LevelChange, start: int) -> str:
    if not change.by_step:
        first, last = (human.duration(max(moment - start, 0)) for moment in (change.onset, change.last))
        return f"since {first} after the start" if change.lasts else f"from {first} to {last} after the start"
    if change.lasts:
        return f"since step {human.number(change.onset)}"
    return f"from step {human.number(change.onset)} to {human.number(change.last)}"


def _cost(change: LevelChange) -> str:
    if change.hidden:
        return "the steps are about as long as before"
    return f"{_share(change)}{sentences.AT_ONCE if change.at_once else ''}"


def _share(change: LevelChange) -> str:
    share = human.percent(change.share)
    if change.in_rollouts:
        return f"{share} of the rollouts' time"
    if not change.by_step:
        return f"{share} of the time"
    if change.all_lose:
        return f"all ranks lose {share} of the step"
    ranks = [rank for rank in change.ranks if rank is not None]
    if change.unchanged and ranks:
        return f"{_ranks(ranks)} {'loses' if len(ranks) == 1 else 'lose'} {share} of the step"
    return f"{share} of the step"


def _of_model(change: LevelChange, start: int) -> str:
    """Return one sentence on latency, time to the first chunk, retries and failures of a model at a server."""
    parts = {each.kind: each for each in (*change.with_it, change)}
    where = f"of model {sentences.model(change.name)}" + (f" at {change.place}" if change.place else "")
    clauses = []
    first_chunk, latency = parts.get(SeriesKind.FIRST_CHUNK), parts.get(SeriesKind.MODEL)
    head = first_chunk or latency
    if head is not None:
        what = "Time to the first chunk" if head is first_chunk else "The duration of calls"
        clauses.append(f"{what} {where} rose {_from_to(head)} {_when(head, start)}")
    retried, failed = parts.get(SeriesKind.RETRIED), parts.get(SeriesKind.FAILED)
    calls = "of the calls" if clauses else f"of the calls {where}"
    if retried is not None:
        clauses.append(f"{human.percent(retried.after)} {calls} were retried{_rate_since(retried, change, start)}")
    if failed is not None:
        clauses.append(f"{human.percent(failed.after)} {calls} failed{_rate_since(failed, change, start)}")
    cost = f": {_cost(change)}" if change.share or change.hidden else ""
    return f"{'; '.join(clauses)}{cost}."


def _from_to(change: LevelChange) -> str:
    return f"from {human.duration(change.before)} to {human.duration(change.after)}"


def _rate_since(rate: LevelChange, head: LevelChange, start: int) -> str:
    since = "" if rate.onset == head.onset and rate is not head else f" {_when(rate, start)}"
    return f"{since} ({human.percent(rate.before)} before)"
