"""Tables on rollouts, tool calls, model calls and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.cells import Table, Value, duration_cells, number_cell, quantile_cell, seconds_cell
from otel_rl.report.core.statistics import Cell
from otel_rl.semconv.attributes import GenAiTokenTypeValues as TokenType
from otel_rl.store.tables.operations import CANCELLED

if TYPE_CHECKING:
    from otel_rl.report.subjects.calls.call_texts import CallText
    from otel_rl.report.subjects.calls.statistics import CallStatistics, SlowCall

_OUTCOMES = "Outcome of errors"


def slow_calls(slow: list[SlowCall], what: str, detail: str = "") -> Table:
    """Return single rollouts, tool calls or model calls that took longest."""
    table = Table([what, ">Took", ">Step", ">Rank", detail, "Outcome", "Trace", ">Reward"], shown=5)
    for call in slow:
        row = [*_begin(call), Value(call.detail), _ended(call.error), Value(call.trace_id[:16], tone="muted")]
        table.rows.append([*row, number_cell(call.reward)])
    return table.without_empty(">Step", ">Rank", detail, ">Reward")


def texts(calls: list[CallText]) -> Table:
    """Return calls whose text can be read, each with a link to it."""
    table = Table(["Call", ">Took", ">Step", ">Rank", "Outcome", "Text"], shown=5)
    for call in calls:
        table.rows.append([*_begin(call), _ended(call.error), Value("read", link=call.anchor)])
    return table.without_empty(">Step", ">Rank")


def _begin(call: SlowCall | CallText) -> list[Value]:
    return [Value(call.name), seconds_cell(call.seconds), number_cell(call.iteration), number_cell(call.rank)]


def _ended(how: str) -> Value:
    return Value(how or "ok", tone="bad" if how not in ("", CANCELLED) else "muted")


def calls(callees: list[CallStatistics], what: str) -> Table:
    """Return calls by tool or agent, with how the failed ones ended where that is known."""
    table = Table([what, ">Calls", ">Errors", _OUTCOMES, ">Mean", ">p50", ">p95", ">Longest", ">Total"])
    for callee in callees:
        begin = [Value(callee.name), number_cell(callee.number), _errors(callee)]
        table.rows.append([*begin, Value(_numbers(callee.outcomes), tone="bad"), *duration_cells(callee.durations)])
    return table.without_empty(_OUTCOMES)


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
                *duration_cells(model.durations),
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


def _errors(statistics: CallStatistics) -> Value:
    failed, cancelled = statistics.failed, statistics.cancelled
    parts = [f"{failed} ({_numbers(statistics.errors)})" if failed else "0"]
    parts += [f"{cancelled} cancelled"] if cancelled else []
    return Value(", ".join(parts), failed, "bad" if failed else "muted")


def _numbers(counts: dict[str, int]) -> str:
    """Return kinds and their numbers, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{kind} {number}" for kind, number in ordered)
