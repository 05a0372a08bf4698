"""Tables on rollouts, tool calls, model calls and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.cells import Table, Value, number_cell, quantile_cell, seconds_cell
from otel_rl.report.core.statistics import Cell
from otel_rl.semconv.attributes import GenAiTokenTypeValues as TokenType

if TYPE_CHECKING:
    from otel_rl.report.subjects.calls.call_texts import CallText
    from otel_rl.report.subjects.calls.statistics import CallStatistics, SlowCall


def slow_calls(slow: list[SlowCall], what: str, detail: str = "") -> Table:
    """Return single rollouts, tool calls or model calls that took longest."""
    table = Table([what, ">Took", ">Step", ">Rank", *([detail] if detail else []), "Outcome", "Trace"], shown=5)
    # A column that no row fills (no steps, no ranks) would only take room.
    keep = [any(call.iteration is not None for call in slow), any(call.rank is not None for call in slow)]
    table.columns = [title for title in table.columns if keep[0] or title != ">Step"]
    table.columns = [title for title in table.columns if keep[1] or title != ">Rank"]
    for call in slow:
        places = [number_cell(value) for value, kept in zip((call.iteration, call.rank), keep, strict=True) if kept]
        outcome = Value(call.error, tone="bad") if call.error else Value("ok", tone="muted")
        more = [Value(call.detail)] if detail else []
        trace = Value(call.trace_id[:16], tone="muted")
        table.rows.append([Value(call.name), seconds_cell(call.seconds), *places, *more, outcome, trace])
    return table


def texts(calls: list[CallText]) -> Table:
    """Return calls whose text can be read, each with a link to it."""
    keep = [any(call.iteration is not None for call in calls), any(call.rank is not None for call in calls)]
    titles = [title for title, kept in zip((">Step", ">Rank"), keep, strict=True) if kept]
    table = Table(["Call", ">Took", *titles, "Outcome", "Text"], shown=5)
    for call in calls:
        places = [number_cell(value) for value, kept in zip((call.iteration, call.rank), keep, strict=True) if kept]
        outcome = Value(call.error, tone="bad") if call.error else Value("ok", tone="muted")
        read = Value("read", link=call.anchor)
        table.rows.append([Value(call.name), seconds_cell(call.seconds), *places, outcome, read])
    return table


def slow_rollouts(rollouts: list[SlowCall]) -> Table:
    """Return rollouts that took longest, with the reward of each where one was given."""
    table = slow_calls(rollouts, "Rollout", "Belongs to" if any(rollout.detail for rollout in rollouts) else "")
    if any(rollout.reward is not None for rollout in rollouts):
        table.columns = [*table.columns, ">Reward"]
        for rollout, row in zip(rollouts, table.rows, strict=True):
            row.append(number_cell(rollout.reward))
    return table


def calls(callees: list[CallStatistics], what: str) -> Table:
    """Return calls by tool or agent, with how the failed ones ended where that is known."""
    has_outcomes = any(callee.outcomes for callee in callees)
    outcome = ["Outcome of errors"] if has_outcomes else []
    table = Table([what, ">Calls", ">Errors", *outcome, ">Mean", ">p50", ">p95", ">Longest", ">Total"])
    for callee in callees:
        outcomes = [Value(_numbers(callee.outcomes), tone="bad")] if has_outcomes else []
        table.rows.append(
            [Value(callee.name), number_cell(callee.number), _errors(callee), *outcomes, *_durations(callee)]
        )
    return table


def models(statistics: list[CallStatistics]) -> Table:
    """Return model calls, with tokens and speed."""
    titles = ["Model", ">Calls", ">Errors", ">Mean", ">p50", ">p95", ">Longest", ">Total", ">First chunk p50"]
    table = Table([*titles, ">Input tokens", ">Output tokens", ">Output tokens/s"])
    for model in statistics:
        table.rows.append(
            [
                Value(model.name),
                number_cell(model.number),
                _errors(model),
                *_durations(model),
                quantile_cell(model.first_chunk, 0.5),
                _tokens(model.tokens.get(TokenType.INPUT), Cell(), model.number),
                _tokens(model.tokens.get(TokenType.OUTPUT), model.estimated, model.number),
                _speed(model),
            ]
        )
    return table


def _tokens(said: Cell | None, estimated: Cell, calls: int) -> Value:
    """Return a sum of tokens, with how many of the calls it is of where not of all, and what of it is estimated."""
    said = said or Cell()
    known = said.count + estimated.count
    if not known:
        return number_cell(None)
    notes = [f"{human.number(estimated.total)} of it estimated"] if estimated.count else []
    notes += [f"of {human.number(known)} of {human.number(calls)} calls"] if known < calls else []
    total = said.total + estimated.total
    return Value(human.number(total) + (f" ({', '.join(notes)})" if notes else ""), total)


def _speed(model: CallStatistics) -> Value:
    """Return output tokens per second of the calls whose tokens are known; ``about`` where some are estimated."""
    said = model.tokens.get(TokenType.OUTPUT, Cell())
    tokens, seconds = said.total + model.estimated.total, model.spoke.total
    if model.spoke.count != said.count + model.estimated.count:
        # Usage of more calls than have spans: their time is known where it is that of all calls.
        seconds = model.durations.cell.total if said.count == model.number else 0.0
        tokens = said.total
    if not tokens or not seconds:
        return number_cell(None)
    speed = tokens / seconds
    about = "about " if model.estimated.count else ""
    return Value(f"{about}{human.number(float(f'{speed:.3g}'))}", speed)


def _durations(statistics: CallStatistics) -> list[Value]:
    cell, quantiles = statistics.durations.cell, [quantile_cell(statistics.durations, share) for share in (0.5, 0.95)]
    longest = cell.maximum if cell.count else None
    return [seconds_cell(cell.mean), *quantiles, seconds_cell(longest), seconds_cell(cell.total)]


def _errors(statistics: CallStatistics) -> Value:
    if not statistics.failed:
        return Value("0", 0, "muted")
    return Value(f"{statistics.failed} ({_numbers(statistics.errors)})", statistics.failed, "bad")


def _numbers(counts: dict[str, int]) -> str:
    """Return kinds and their numbers, the most frequent first."""
    return ", ".join(
        f"{kind} {number}" for kind, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
