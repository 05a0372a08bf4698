"""The head of the page: identity of the run, first numbers, and findings that deserve a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.offline.report.aggregate.problems import drops, internal_errors
from otel_rl.offline.report.aggregate.summary import first_value
from otel_rl.offline.report.render import human, ring_sections, sentences
from otel_rl.semconv import attributes as names
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RlLauncherValues

if TYPE_CHECKING:
    from otel_rl.offline.reader import Process
    from otel_rl.offline.report.aggregate.calls import CallStatistics
    from otel_rl.offline.report.aggregate.collected import Collected
    from otel_rl.offline.report.aggregate.scalars import Stretch
    from otel_rl.offline.report.aggregate.summary import Summary

_NOTABLE_SKEW = 0.05
_NOTABLE_SHARE = 0.6


def facts(collected: Collected, summary: Summary) -> list[tuple[str, str]]:
    """Identity of the run: (name, value), without what is not known."""
    processes = collected.reader.processes
    hosts = sorted({str(host) for process in processes if (host := process.identity(names.HOST_NAME))})
    command = next((process.manifest.get("command") for process in processes if process.manifest), None)
    found: list[tuple[str, Any]] = [
        ("Run", summary.run_id),
        ("Attempt", summary.attempt or None),
        ("Program", command),
        ("System", first_value(processes, names.RL_SYSTEM)),
        ("Algorithm", first_value(processes, names.RL_ALGORITHM)),
        ("Launcher", _launcher(processes)),
        ("Job", first_value(processes, names.RL_JOB_ID)),
        ("Started", human.moment(summary.start)),
        ("Length", human.duration(summary.seconds)),
        ("Ranks", _ranks(summary)),
        ("Hosts", human.listed(hosts)),
    ]
    return [(name, str(value)) for name, value in found if value not in (None, "")]


def _launcher(processes: list[Process]) -> str | None:
    launcher = first_value(processes, names.RL_LAUNCHER)
    return None if launcher == RlLauncherValues.NONE else launcher


def _ranks(summary: Summary) -> str:
    if summary.world_size is None:
        return f"{len(summary.reported)}, world size unknown" if summary.reported else ""
    return f"{len(summary.reported)} of {summary.world_size} reported"


def tiles(collected: Collected, summary: Summary) -> list[tuple[str, str, str]]:
    """The few numbers to see first: (name, value, what it says)."""
    steps, totals = collected.steps, collected.totals
    found = [("Length", human.duration(summary.seconds), human.moment(summary.start))]
    count = steps.loops or round(totals.sum(metrics.RL_TRAIN_STEPS))
    if count:
        length = steps.lengths
        shown = f"median {human.duration(length.quantile(0.5))}, p95 {human.duration(length.quantile(0.95))}"
        found.append(("Steps", human.number(count), shown if length.cell.count else ""))
    found += [_moved(collected, title, name) for title, name in _MOVED]
    tokens, samples = totals.sum(metrics.RL_TRAIN_TOKENS), totals.sum(metrics.RL_SAMPLE_SAMPLES)
    # Of the steps where there are any: a program's start would make a fast trainer look slow.
    seconds = steps.lengths.cell.total or summary.seconds
    if tokens and seconds:
        speed = f"{human.number(round(tokens / seconds, 1))} per s"
        found.append(
            ("Tokens", human.short_number(tokens), f"{speed}, {human.amount(samples, 'sample')}" if samples else speed)
        )
    for name, statistics in (
        ("Rollouts", _some(collected.calls.rollouts.statistics)),
        ("Model calls", collected.calls.models(totals)),
        ("Tool calls", collected.calls.tools(totals)),
    ):
        if statistics:
            failed = sum(one.failed for one in statistics)
            found.append((name, human.short_number(sum(one.number for one in statistics)), f"{failed} failed"))
    errors = collected.problems.number
    found.append(("Errors", human.short_number(errors), "uncaught, spans and log records"))
    return [tile for tile in found if tile[1]]


def _some(statistics: CallStatistics) -> list[CallStatistics]:
    return [statistics] if statistics.number else []


_MOVED = (("Reward", "Reward"), ("KL", "KL divergence"), ("Entropy", "Entropy"))


def _moved(collected: Collected, name: str, panel: str) -> tuple[str, str, str]:
    ends = collected.scalars.first_and_last(panel)
    if ends is None:
        return (name, "", "")
    first, last = ends
    over_time = collected.scalars.over_time
    mean = "" if last.first == last.last else "mean of "
    note = f"{mean}{_part(last, over_time=over_time)}; {_part(first, over_time=over_time)}: {_rounded(first.mean)}"
    return (name, _rounded(last.mean), note)


def _rounded(value: float) -> str:
    return human.number(float(f"{value:.3g}"))


def _part(part: Stretch, *, over_time: bool) -> str:
    """``steps 41 to 50``, as the axis of the chart counts them, or ``40 s to 50 s``."""
    show = human.duration if over_time else human.number
    if part.first == part.last:
        return show(part.first) if over_time else f"step {show(part.first)}"
    return f"{'' if over_time else 'steps '}{show(part.first)} to {show(part.last)}"


def findings(collected: Collected, summary: Summary) -> list[tuple[str, str, str]]:
    """List the findings that need attention: (tone, text, section with the explanation)."""
    found = ring_sections.ending_finding(collected)
    if summary.missing:
        ranks = human.listed([str(rank) for rank in summary.missing])
        plural = "s" if len(summary.missing) > 1 else ""
        found.append(("bad", f"Rank{plural} {ranks} of {summary.world_size} did not report.", "processes"))
    for one in collected.problems.exceptions[:3]:
        at = f" at step {one.iteration}" if one.iteration is not None else ""
        found.append(("bad", f"{one.who} died of {one.kind}{at}.", "errors"))
    died = {one.who for one in collected.problems.exceptions}
    unclean = [who for who in summary.unclean if who not in died]
    if unclean:
        found.append(("bad", f"{human.listed(unclean)}: no normal end, or still running.", "processes"))
    groups = collected.problems.table()
    if groups:
        number = human.amount(sum(group.number for group in groups), "error")
        text = f"{number}, most often {groups[0].kind} in {groups[0].where}."
        found.append(("bad", text, "errors"))
    found += _late(collected)
    if collected.steps.unseen.count > collected.steps.seen.count:
        found.append(("warn", sentences.unseen(collected.steps), "ranks"))
    lost = sum(drop.number for drop in drops(collected.reader.processes, collected.totals))
    if lost:
        found.append(("warn", f"{human.amount(lost, 'item')} of telemetry dropped.", "telemetry"))
    found += _unreadable(collected)
    found += _reduced(collected)
    if internal_errors(collected.totals):
        found.append(("warn", "Errors inside the instrumentation itself.", "telemetry"))
    return found or [("good", _all_well(collected), "processes")]


def _all_well(collected: Collected) -> str:
    told = [process.clean_exit for process in collected.reader.processes]
    ends = "" if None in told else "every process ended in order, "
    return f"Nothing stands out: {ends}no error was recorded, nothing was dropped."


def _late(collected: Collected) -> list[tuple[str, str, str]]:
    """The rank that the others wait for: over the whole run, and what the last steps would have been without it."""
    over_all, last = _skew(collected), ring_sections.late_rank(collected)
    if last is None:
        return over_all
    if not over_all:
        return [("warn", last, "ranks")]
    [(tone, text, section)] = over_all
    return [(tone, f"{text} {last}", section)]


def _skew(collected: Collected) -> list[tuple[str, str, str]]:
    ranks = {rank: totals for rank, totals in collected.steps.ranks.items() if rank is not None}
    compared = sum(totals.slowest for totals in ranks.values())
    if not compared:
        return []
    slowest = max(ranks, key=lambda rank: ranks[rank].slowest)
    others = [totals.own.mean for rank, totals in ranks.items() if rank != slowest]
    more = ranks[slowest].own.mean - sum(others) / len(others)
    length = collected.steps.seen.mean
    if ranks[slowest].slowest < _NOTABLE_SHARE * compared or more < _NOTABLE_SKEW * length:
        return []
    text = (
        f"Rank {slowest} makes the others wait: most work of its own in {ranks[slowest].slowest} of {compared} steps, "
        f"{human.duration(more)} more per step ({human.percent(more / length)} of a step)."
    )
    return [("warn", text, "ranks")]


def _reduced(collected: Collected) -> list[tuple[str, str, str]]:
    """otel-rl took too much of the steps and left something out."""
    processes = list(collected.own_cost.reduced.values())
    if not processes:
        return []
    first = min((one.iteration for one in processes if one.iteration is not None), default=None)
    since = "" if first is None else f" from step {first} on"
    share = max(one.share for one in processes)
    who = human.listed([one.who for one in processes])
    text = f"Less was recorded{since} ({who}): otel-rl took {human.percent(share)} of the steps' time."
    return [("warn", text, "telemetry")]


def own_share(collected: Collected) -> str:
    """One sentence on the cost of otel-rl itself, ``""`` where it is not known."""
    share = collected.own_cost.share
    return "" if share is None else f"otel-rl used {human.percent(share)} of the CPU time of the steps."


def _unreadable(collected: Collected) -> list[tuple[str, str, str]]:
    text = unreadable(collected)
    return [("warn", text, "telemetry")] if text else []


def unreadable(collected: Collected) -> str:
    """One sentence on the lines and files that could not be read, ``""`` when there were none."""
    problems = collected.reader.problems
    parts = [
        (problems.cut_off, "line cut off at the end of a file", "lines cut off at the end of files"),
        (problems.unreadable, "line is no JSON", "lines are no JSON"),
        (problems.foreign, "line is no OTLP", "lines are no OTLP"),
        (len(problems.errors), "file cannot be read", "files cannot be read"),
    ]
    said = [human.amount(number, one, many) for number, one, many in parts if number]
    return f"Not read: {', '.join(said)}." if said else ""
