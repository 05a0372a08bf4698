"""The head of the page: identity of the run, and first numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.core.summary import first_value
from otel_rl.report.subjects.calls.aggregate import Calls
from otel_rl.report.subjects.endings import process_end
from otel_rl.report.subjects.endings.process_end import EndState
from otel_rl.report.subjects.errors.aggregate import Problems
from otel_rl.report.subjects.run_time import finding as run_time
from otel_rl.report.subjects.run_time.program import Program
from otel_rl.report.subjects.telemetry.aggregate import OwnCost
from otel_rl.report.subjects.training.aggregate import Scalars
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlLauncherValues

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.summary import Summary
    from otel_rl.report.subjects.calls.aggregate import CallStatistics
    from otel_rl.report.subjects.training.aggregate import CurveMean
    from otel_rl.store.reader import Process


def facts(collected: Collected, summary: Summary) -> list[tuple[str, str]]:
    """Return the identity of the run: (name, value), without what is not known."""
    processes = collected.reader.processes
    hosts = sorted({str(host) for process in processes if (host := process.identity(names.HOST_NAME))})
    command = next((process.manifest.get("command") for process in processes if process.manifest), None)
    program = collected[Program]
    entries: list[tuple[str, Any]] = [
        ("Run", summary.run_id),
        ("Attempt", summary.attempt or None),
        ("Program", program.command or command),
        ("System", first_value(processes, names.RL_SYSTEM)),
        ("Algorithm", first_value(processes, names.RL_ALGORITHM)),
        ("Launcher", _launcher(processes)),
        ("Job", first_value(processes, names.RL_JOB_ID)),
        ("Started", human.moment(summary.start)),
        ("Length", human.duration(summary.seconds)),
        ("End", _end(collected)),
        ("Ranks", _ranks(summary)),
        ("Hosts", human.listed(hosts)),
        *program.facts(),
    ]
    return [(name, str(value)) for name, value in entries if value not in (None, "")]


def _end(collected: Collected) -> str:
    """Return how the processes ended: ``running``, ``failed (1 of 2 processes)``; the gravest first."""
    states = [end.state for end in process_end.ends(collected)]
    parts = []
    for state in _GRAVEST_FIRST:
        number = states.count(state)
        if number:
            parts.append(
                state.value if number == len(states) else f"{state.value} ({number} of {len(states)} processes)"
            )
    return ", ".join(parts)


_GRAVEST_FIRST = (
    EndState.FAILED,
    EndState.KILLED,
    EndState.GONE,
    EndState.NOT_KNOWN,
    EndState.STOPPED,
    EndState.RUNNING,
    EndState.IN_ORDER,
    EndState.NOT_RECORDED,
)


def _launcher(processes: list[Process]) -> str | None:
    launcher = first_value(processes, names.RL_LAUNCHER)
    return None if launcher == RlLauncherValues.NONE else launcher


def _ranks(summary: Summary) -> str:
    if summary.world_size is None:
        return f"{len(summary.reported)}, world size unknown" if summary.reported else ""
    return f"{len(summary.reported)} of {summary.world_size} reported"


def tiles(collected: Collected, summary: Summary) -> list[tuple[str, str, str]]:
    """Return the few numbers to see first: (name, value, note)."""
    steps, totals = collected.steps, collected.totals
    entries = [("Length", human.duration(summary.seconds), human.moment(summary.start))]
    count = steps.loops or round(totals.sum(metrics.RL_TRAIN_STEPS))
    if count:
        length = steps.lengths
        shown = f"median {human.duration(length.quantile(0.5))}, p95 {human.duration(length.quantile(0.95))}"
        entries.append(("Steps", human.number(count), shown if length.cell.count else ""))
    entries.append(run_time.card(collected))
    entries += [_moved(collected, title, name) for title, name in _MOVED]
    tokens, samples = totals.sum(metrics.RL_TRAIN_TOKENS), totals.sum(metrics.RL_SAMPLE_SAMPLES)
    # Of the steps where there are any: a program's start would make a fast trainer look slow.
    # One rank counts the tokens of all, so the time is that of one rank.
    seconds = steps.lengths.cell.total / max(len(steps.ranks), 1) or summary.seconds
    if tokens and seconds:
        speed = f"{human.number(round(tokens / seconds, 1))} per s of all ranks"
        entries.append(
            ("Tokens", human.short_number(tokens), f"{speed}, {human.amount(samples, 'sample')}" if samples else speed)
        )
    for name, statistics in (
        ("Rollouts", _some(collected[Calls].rollouts.statistics)),
        ("Model calls", collected[Calls].models(totals)),
        ("Tool calls", collected[Calls].tools(totals)),
    ):
        if statistics:
            failed = sum(statistic.failed for statistic in statistics)
            entries.append(
                (name, human.short_number(sum(statistic.number for statistic in statistics)), f"{failed} failed")
            )
    errors = collected[Problems].number
    entries.append(("Errors", human.short_number(errors), _errors(collected, errors)))
    return [tile for tile in entries if tile[1]]


def _errors(collected: Collected, number: int) -> str:
    uncaught = sum(not exception.is_interrupt for exception in collected[Problems].exceptions)
    others = number - uncaught
    parts = [human.amount(uncaught, "uncaught exception")] if uncaught else []
    parts += [human.amount(others, "failed span or log record", "failed spans and log records")] if others else []
    return ", ".join(parts) or "none recorded"


def _some(statistics: CallStatistics) -> list[CallStatistics]:
    return [statistics] if statistics.number else []


_MOVED = (("Reward", "Reward"), ("KL", "KL divergence"), ("Entropy", "Entropy"))


def _moved(collected: Collected, name: str, panel: str) -> tuple[str, str, str]:
    ends = collected[Scalars].first_and_last(panel)
    if ends is None:
        return (name, "", "")
    first, last = ends
    mean = "" if last.first == last.last else "mean of "
    note = f"{mean}{_part(last)}; {_part(first)}: {_rounded(first.mean)}"
    return (name, _rounded(last.mean), note)


def _rounded(value: float) -> str:
    return human.number(float(f"{value:.3g}"))


def _part(part: CurveMean) -> str:
    """Return ``steps 41 to 50``, as the axis of the chart counts them, or ``40 s to 50 s``."""
    over_time = part.over_time
    show = human.duration if over_time else human.number
    if part.first == part.last:
        return show(part.first) if over_time else f"step {show(part.first)}"
    return f"{'' if over_time else 'steps '}{show(part.first)} to {show(part.last)}"


def own_share(collected: Collected) -> str:
    """Return one sentence on the cost of otel-rl itself, ``""`` where it is not known."""
    share = collected[OwnCost].share
    return "" if share is None else f"otel-rl used {human.percent(share)} of the CPU time of the steps."
