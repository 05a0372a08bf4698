"""The tables of the page: titles, texts, and what to sort by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_rl.offline.report import collectives, colours, human
from otel_rl.offline.report.problems import drops
from otel_rl.offline.report.statistics import Spread
from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import GenAiTokenTypeValues as TokenType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.offline.reader import Process
    from otel_rl.offline.report.calls import CallStatistics, SlowCall
    from otel_rl.offline.report.collect import Collected
    from otel_rl.offline.report.steps import SlowCollective, Steps


@dataclass(frozen=True, slots=True)
class Value:
    """What a cell says; ``sort`` orders the column; ``tone`` is ``good``, ``bad`` or ``muted``; ``swatch`` a colour."""

    text: str
    sort: float | None = None
    tone: str = ""
    swatch: str = ""


@dataclass(slots=True)
class Table:
    """Columns (``>`` before a title aligns it to the right) and rows; rows beyond ``shown`` fold away."""

    columns: Sequence[str]
    rows: list[list[Value]] = field(default_factory=list)
    shown: int = 12


def _seconds(value: float | None) -> Value:
    return Value(human.duration(value), value)


def _number(value: float | None) -> Value:
    return Value(human.number(value), value)


def _errors(statistics: CallStatistics) -> Value:
    if not statistics.failed:
        return Value("0", 0, "muted")
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(statistics.errors.items(), key=lambda one: -one[1]))
    return Value(f"{statistics.failed} ({kinds})", statistics.failed, "bad")


def phases(steps: Steps) -> Table:
    """Where step time goes, by phase."""
    table = Table(["Phase", ">Own time per step", ">Share", ">With inner phases, mean", ">p95", ">Longest"])
    count = steps.lengths.cell.count or 1
    whole = steps.lengths.cell.total
    own = {phase: sum(cell.total for _, cell in line) for phase, line in steps.phases.lines().items()}
    for phase in sorted(own, key=colours.order):
        spread = steps.inclusive.get(phase)
        table.rows.append(
            [
                Value(phase, swatch=colours.of(phase)),
                _seconds(own[phase] / count),
                Value(human.percent(own[phase] / whole) if whole else human.UNKNOWN, own[phase]),
                _seconds(spread.cell.mean if spread else None),
                _seconds(spread.quantile(0.95) if spread else None),
                _seconds(spread.cell.maximum if spread else None),
            ]
        )
    return table


def ranks(steps: Steps, compared: int) -> Table:
    """Who works and who waits."""
    table = Table(
        ["Rank", ">Steps", ">Mean step", ">Own work", ">In collectives", ">Collectives' share", ">Others waited for it"]
    )
    for rank, totals in sorted(steps.ranks.items(), key=lambda item: (item[0] is None, item[0] or 0)):
        share = totals.collectives.total / totals.steps.total if totals.steps.total else 0.0
        slowest = f"{totals.slowest} of {compared}" if compared else human.UNKNOWN
        table.rows.append(
            [
                Value(human.UNKNOWN if rank is None else f"rank {rank}", rank),
                _number(totals.steps.count),
                _seconds(totals.steps.mean),
                _seconds(totals.own.mean),
                _seconds(totals.collectives.mean),
                Value(human.percent(share), share),
                Value(slowest, totals.slowest),
            ]
        )
    return table


def collective_totals(found: list[collectives.Collective]) -> Table:
    """Collectives by operation and group, over all ranks."""
    table = Table(
        ["Operation", "Group", ">Calls", ">Data", ">Waiting", ">Launching", ">Wait per call", "Waits longest"]
    )
    for one in found:
        longest = one.longest_wait
        table.rows.append(
            [
                Value(one.operation),
                Value(f"{one.group or human.UNKNOWN} ({one.size or '?'} ranks)"),
                _number(one.calls),
                Value(human.size(one.bytes), one.bytes),
                _seconds(one.wait),
                _seconds(one.launch),
                _seconds(one.wait / one.calls if one.calls else None),
                Value(f"rank {longest[0]}, {human.duration(longest[1])}" if longest else human.UNKNOWN),
            ]
        )
    return table


def slow_collectives(found: list[SlowCollective]) -> Table:
    """Single collectives that took longest."""
    table = Table(["Operation", "Group", ">Took", ">Data", ">Step", ">Rank"], shown=5)
    for one in found:
        group = f"{one.group or human.UNKNOWN} ({one.ranks or '?'} ranks)"
        size = Value(human.size(one.size), one.size)
        place = [_number(one.iteration), _number(one.rank)]
        table.rows.append([Value(one.operation), Value(group), _seconds(one.seconds), size, *place])
    return table


def slow_calls(found: list[SlowCall], what: str, detail: str = "") -> Table:
    """Single rollouts, tool calls or model calls that took longest."""
    table = Table([what, ">Took", ">Step", ">Rank", *([detail] if detail else []), "Outcome", "Trace"], shown=5)
    # A column that no row fills (no steps, no ranks) would only take room.
    keep = [any(one.iteration is not None for one in found), any(one.rank is not None for one in found)]
    table.columns = [title for title in table.columns if keep[0] or title != ">Step"]
    table.columns = [title for title in table.columns if keep[1] or title != ">Rank"]
    for one in found:
        places = [_number(value) for value, kept in zip((one.iteration, one.rank), keep, strict=True) if kept]
        outcome = Value(one.error, tone="bad") if one.error else Value("ok", tone="muted")
        more = [Value(one.detail)] if detail else []
        trace = Value(one.trace_id[:16], tone="muted")
        table.rows.append([Value(one.name), _seconds(one.seconds), *places, *more, outcome, trace])
    return table


def calls(found: list[CallStatistics], what: str) -> Table:
    """Calls by tool or agent."""
    table = Table([what, ">Calls", ">Errors", ">Mean", ">p50", ">p95", ">Longest", ">Total"])
    for one in found:
        table.rows.append([Value(one.name), _number(one.number), _errors(one), *_durations(one)])
    return table


def models(found: list[CallStatistics]) -> Table:
    """Model calls, with tokens and speed."""
    titles = ["Model", ">Calls", ">Errors", ">Mean", ">p50", ">p95", ">Longest", ">Total", ">First chunk p50"]
    table = Table([*titles, ">Input tokens", ">Output tokens", ">Output tokens/s"])
    for one in found:
        output = one.tokens.get(TokenType.OUTPUT)
        spent = one.durations.cell.total
        table.rows.append(
            [
                Value(one.name),
                _number(one.number),
                _errors(one),
                *_durations(one),
                _seconds(one.first_chunk.quantile(0.5)),
                _number(one.tokens.get(TokenType.INPUT)),
                _number(output),
                _number(output / spent if output and spent else None),
            ]
        )
    return table


def _durations(one: CallStatistics) -> list[Value]:
    cell, quantile = one.durations.cell, one.durations.quantile
    longest = cell.maximum if cell.count else None
    return [_seconds(value) for value in (cell.mean, quantile(0.5), quantile(0.95), longest, cell.total)]


def rewards(collected: Collected) -> Table:
    """Scores by reward function."""
    table = Table(["Reward", ">Scores", ">Mean", ">p5", ">Median", ">p95", ">Lowest", ">Highest", ">Time per call"])
    scores, seconds = collected.rewards.scores(collected.totals), collected.rewards.seconds
    for name in sorted({*scores, *seconds}):
        spread, spent = scores.get(name, Spread()), seconds.get(name, Spread())
        cell = spread.cell
        values = [spread.quantile(share) for share in (0.05, 0.5, 0.95)] + [cell.minimum, cell.maximum]
        numbers = [_number(value) for value in (cell.count, cell.mean, *values)]
        table.rows.append([Value(name), *numbers, _seconds(spent.cell.mean)])
    return table


def errors(collected: Collected) -> Table:
    """Errors that look alike, the most frequent first."""
    table = Table(["Where", "Error", "Message", ">Times", "First by", ">First at step"])
    for group in collected.problems.table():
        first = [Value(group.who), _number(group.iteration)]
        error = Value(group.kind, tone="bad")
        table.rows.append([Value(group.where), error, Value(group.message), _number(group.number), *first])
    return table


def dropped(collected: Collected) -> Table:
    """What was dropped and by whom."""
    table = Table(["Process", "Signal", "Reason", ">Items"])
    for drop in drops(collected.reader.processes, collected.totals):
        reason = Value(drop.reason.replace("_", " "))
        table.rows.append([Value(drop.who), Value(drop.signal), reason, Value(human.number(drop.number), drop.number)])
    for who, number in collected.problems.dropped_from_spans.items():
        reason = Value("over the limits of a span")
        table.rows.append([Value(who), Value("attributes, events, links"), reason, _number(number)])
    return table


def processes(collected: Collected, offsets: dict[str, float]) -> Table:
    """Who reported."""
    table = Table(
        ["Process", "Role", "Host", ">PID", "Ended", ">Lived", ">Spans", ">Points", ">Logs", ">Clock offset"], shown=24
    )
    for process in collected.reader.processes:
        counts = [_number(value) for value in (process.spans, process.points, process.logs)]
        table.rows.append(
            [
                Value(process.label, process.rank),
                Value(str(process.identity(names.RL_ROLE) or human.UNKNOWN)),
                Value(str(process.identity(names.HOST_NAME) or human.UNKNOWN)),
                Value(str(process.identity(names.PROCESS_PID) or human.UNKNOWN)),
                ending(process),
                _seconds(lifetime(process)),
                *counts,
                _seconds(offsets.get(process.key)),
            ]
        )
    return table


def ending(process: Process) -> Value:
    """How the process ended, in words."""
    if process.manifest is None:
        return Value(f"unknown: {process.manifest_error or 'files of a collector do not tell'}", tone="muted")
    reason = process.manifest.get("exit_reason")
    if process.clean_exit:
        return Value("normally", tone="good")
    if reason:
        return Value(f"not cleanly: {reason}", tone="bad")
    return Value("no end recorded: killed, crashed, or still running", tone="bad")


def lifetime(process: Process) -> float | None:
    """Seconds from start to end, as its manifest says, else as its records show."""
    start, end = process.number("started_unix_nano") or process.first, process.number("ended_unix_nano") or process.last
    return (end - start) / 1e9 if start and end and end >= start else None


def instrumentors(collected: Collected) -> Table:
    """What was instrumented, and why not."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for process in collected.reader.processes:
        for name, outcome in process.mapping("instrumentors").items():
            if isinstance(outcome, dict):
                key = (str(name), str(outcome.get("state", "")), str(outcome.get("reason", "")))
                found.setdefault(key, []).append(process.label)
    table = Table(["Instrumentor", "State", "Why", "Processes"], shown=40)
    tones = {"active": "good", "failed": "bad"}
    for (name, state, reason), who in sorted(found.items()):
        shown = ", ".join(who[:4]) + (f" and {len(who) - 4} more" if len(who) > 4 else "")  # noqa: PLR2004
        table.rows.append([Value(name), Value(state, tone=tones.get(state, "muted")), Value(reason), Value(shown)])
    return table
