"""Tables on rollouts, tool calls, model calls and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core.cells import Table, Value, number_cell, quantile_cell, seconds_cell
from otel_rl.semconv.attributes import GenAiTokenTypeValues as TokenType

if TYPE_CHECKING:
    from otel_rl.report.subjects.calls.aggregate import CallStatistics, SlowCall


def slow_calls(found: list[SlowCall], what: str, detail: str = "") -> Table:
    """Single rollouts, tool calls or model calls that took longest."""
    table = Table([what, ">Took", ">Step", ">Rank", *([detail] if detail else []), "Outcome", "Trace"], shown=5)
    # A column that no row fills (no steps, no ranks) would only take room.
    keep = [any(one.iteration is not None for one in found), any(one.rank is not None for one in found)]
    table.columns = [title for title in table.columns if keep[0] or title != ">Step"]
    table.columns = [title for title in table.columns if keep[1] or title != ">Rank"]
    for one in found:
        places = [number_cell(value) for value, kept in zip((one.iteration, one.rank), keep, strict=True) if kept]
        outcome = Value(one.error, tone="bad") if one.error else Value("ok", tone="muted")
        more = [Value(one.detail)] if detail else []
        trace = Value(one.trace_id[:16], tone="muted")
        table.rows.append([Value(one.name), seconds_cell(one.seconds), *places, *more, outcome, trace])
    return table


def slow_rollouts(found: list[SlowCall]) -> Table:
    """Rollouts that took longest, with the reward of each where one was given."""
    table = slow_calls(found, "Rollout", "Belongs to" if any(one.detail for one in found) else "")
    if any(one.reward is not None for one in found):
        table.columns = [*table.columns, ">Reward"]
        for one, row in zip(found, table.rows, strict=True):
            row.append(number_cell(one.reward))
    return table


def calls(found: list[CallStatistics], what: str) -> Table:
    """Calls by tool or agent; how failed ones ended where somebody says it."""
    has_outcomes = any(one.outcomes for one in found)
    outcome = ["Outcome of errors"] if has_outcomes else []
    table = Table([what, ">Calls", ">Errors", *outcome, ">Mean", ">p50", ">p95", ">Longest", ">Total"])
    for one in found:
        outcomes = [Value(_numbers(one.outcomes), tone="bad")] if has_outcomes else []
        table.rows.append([Value(one.name), number_cell(one.number), _errors(one), *outcomes, *_durations(one)])
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
                number_cell(one.number),
                _errors(one),
                *_durations(one),
                quantile_cell(one.first_chunk, 0.5),
                number_cell(one.tokens.get(TokenType.INPUT)),
                number_cell(output),
                number_cell(output / spent if output and spent else None),
            ]
        )
    return table


def _durations(one: CallStatistics) -> list[Value]:
    cell, quantiles = one.durations.cell, [quantile_cell(one.durations, share) for share in (0.5, 0.95)]
    longest = cell.maximum if cell.count else None
    return [seconds_cell(cell.mean), *quantiles, seconds_cell(longest), seconds_cell(cell.total)]


def _errors(statistics: CallStatistics) -> Value:
    if not statistics.failed:
        return Value("0", 0, "muted")
    return Value(f"{statistics.failed} ({_numbers(statistics.errors)})", statistics.failed, "bad")


def _numbers(counts: dict[str, int]) -> str:
    """Kinds and their numbers, the most frequent first."""
    return ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
