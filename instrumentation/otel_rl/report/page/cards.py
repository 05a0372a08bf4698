"""Key figures of a run, by the kind of its program: values with their change, tokens, calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core import human
from otel_rl.report.core.statistics import Spread
from otel_rl.report.core.steps import whole_seconds
from otel_rl.report.page import sparkline
from otel_rl.report.subjects.calls import rollouts, statistics
from otel_rl.report.subjects.training import program_kinds, scalars
from otel_rl.report.subjects.trajectories import groups
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import GenAiTokenTypeValues as TokenType

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.steps import Steps
    from otel_rl.report.subjects.calls.statistics import CallStatistics
    from otel_rl.report.subjects.training.program_kinds import Card
    from otel_rl.report.subjects.training.scalars import CurveMean, Trend

#: Sum of the tokens that were trained on, as TRL logs it.
_TOKENS = "num_tokens"
#: A share of effective tokens from which on nothing is said of them.
_MOST = 0.9
_FEWEST_FOR_P95 = 20


class Tile(NamedTuple):
    """One key figure: its name, the value, a note, and points of a small curve (of an SVG polyline)."""

    name: str
    value: str
    note: str
    curve: str = ""


_NONE = Tile("", "", "")


def of_training(collected: Collected) -> list[Tile]:
    """Return what training came to: the cards of the kind of program."""
    logged = scalars.of_run(collected)
    kind = program_kinds.kind_of(collected, logged.keys)
    known = [(card, logged.trend(card)) for card in kind.cards]
    return [_effective(collected), *(_of_trend(card, trend) for card, trend in known if trend is not None)]


def _of_trend(card: Card, trend: Trend) -> Tile:
    words = human.percent if card.is_share else _rounded
    last, first = trend.last, trend.first
    mean = "" if last.first == last.last else "mean of "
    note = f"{mean}{_part(last)}"
    if first is not None:
        before = f"{_part(first)}: {words(first.mean)}"
        note += f"; {before}" if trend.is_clear else f"; no clear change since {before}"
    return Tile(card.title, words(last.mean), note, sparkline.points(trend.curve))


def _effective(collected: Collected) -> Tile:
    """Return the share of the tokens that taught something, where it is low."""
    of_run = groups.of_run(collected)
    share = of_run.effective_share
    if share is None or share >= _MOST:
        return _NONE
    return Tile(
        "Tokens that taught something",
        human.percent(share),
        f"of {human.short_number(of_run.tokens)}; in {human.number(of_run.dead)} of "
        f"{human.amount(of_run.compared, 'group')} all rewards are equal",
    )


def tokens(collected: Collected, run_seconds: float | None) -> Tile:
    """Return the tokens that were trained on, and the speed."""
    steps, totals = collected.steps, collected.totals
    counted, samples = totals.sum(metrics.RL_TRAIN_TOKENS), totals.sum(metrics.RL_SAMPLE_SAMPLES)
    # Of the steps where there are any: a program's start would make a fast trainer look slow.
    # One rank counts the tokens of all, so the time is that of one rank.
    seconds = whole_seconds(steps, totals) / max(len(steps.ranks), 1) or run_seconds
    if not counted or not seconds:
        return _logged_tokens(collected)
    speed = f"{human.number(round(counted / seconds, 1))} per s of all ranks"
    return Tile(
        "Tokens",
        human.short_number(counted),
        f"{speed}, {human.amount(samples, 'sample')}" if samples else speed,
    )


def _logged_tokens(collected: Collected) -> Tile:
    """Return the sum of the tokens that the trainer logs, and the speed between its first and its last log call."""
    curve = scalars.of_run(collected).curve(_TOKENS)
    if curve is None:
        return _NONE
    seconds = _seconds(collected.steps, curve.x[0], curve.x[-1])
    more = curve.y[-1] - curve.y[0]
    speed = f"{human.number(round(more / seconds))} per s, after step {human.number(curve.x[0])}" if seconds else ""
    return Tile("Tokens", human.short_number(curve.y[-1]), speed if more > 0 else "")


def _seconds(steps: Steps, first: float, last: float) -> float:
    """Return the time from the end of one step to the end of another, on one rank."""
    if not steps.ranks:
        return 0.0
    lines = [*steps.by_rank.values(), *steps.gaps.values()]
    return sum(line.total_between(int(first) + 1, int(last)) for line in lines) / len(steps.ranks)


def of_calls(collected: Collected) -> list[Tile]:
    """Return rollouts, model calls and tool calls; of a program without steps also how fast the models were."""
    models, of_rollouts = statistics.models(collected), rollouts.of_run(collected).statistics
    tiles = [
        _number("Rollouts", [of_rollouts] if of_rollouts.number else []),
        _number("Agents", statistics.agents(collected)),
        _number("Model calls", models),
        _number("Tool calls", statistics.tools(collected)),
    ]
    return tiles if collected.steps.ranks else [*tiles, *_of_models(models)]


def _number(name: str, callees: list[CallStatistics]) -> Tile:
    if not callees:
        return _NONE
    failed, cancelled = (sum(getattr(one, ended) for one in callees) for ended in ("failed", "cancelled"))
    note = f"{human.number(failed)} failed" + (f", {human.number(cancelled)} cancelled" if cancelled else "")
    return Tile(name, human.short_number(sum(callee.number for callee in callees)), note)


def _of_models(models: list[CallStatistics]) -> list[Tile]:
    """Return latency, time to the first chunk, and tokens of all models."""
    durations, first_chunk = Spread(), Spread()
    for model in models:
        durations.merge(model.durations)
        first_chunk.merge(model.first_chunk)
    return [_latency("Model latency", durations), _latency("First chunk", first_chunk), _model_tokens(models)]


def _model_tokens(models: list[CallStatistics]) -> Tile:
    """Return the tokens of all models, with those that were estimated from the chunks of a stream."""
    used = {
        kind: sum(model.tokens[kind].total for model in models if kind in model.tokens)
        for kind in (TokenType.INPUT, TokenType.OUTPUT)
    }
    estimated = sum(model.estimated.total for model in models)
    total = sum(used.values()) + estimated
    if not total:
        return _NONE
    # A call that failed uses none.
    calls = sum(model.number - model.failed - model.cancelled for model in models)
    said = sum(model.tokens[TokenType.INPUT].count for model in models if TokenType.INPUT in model.tokens)
    some = f" (of {human.number(said)} of {human.number(calls)} calls)" if said < calls else ""
    note = f"{human.short_number(used[TokenType.INPUT])} in{some}, "
    note += f"{human.short_number(used[TokenType.OUTPUT] + estimated)} out"
    known = f"{human.short_number(estimated)} of it estimated" if estimated else "where the answers say it"
    return Tile("Model tokens", human.short_number(total), f"{note}, {known}")


def _latency(name: str, spread: Spread) -> Tile:
    if not spread.cell.count:
        return _NONE
    tail = f", p95 {human.duration(spread.quantile(0.95))}" if spread.cell.count >= _FEWEST_FOR_P95 else ""
    return Tile(
        name, human.duration(spread.quantile(0.5)), f"median of {human.amount(spread.cell.count, 'call')}{tail}"
    )


def _rounded(value: float) -> str:
    return human.scientific(float(f"{value:.3g}"))


def _part(part: CurveMean) -> str:
    """Return ``steps 41 to 50``, as the axis of the chart counts them, or ``40 s to 50 s``."""
    over_time = part.over_time
    show = human.duration if over_time else human.number
    if part.first == part.last:
        return show(part.first) if over_time else f"{part.counts} {show(part.first)}"
    return f"{'' if over_time else f'{part.counts}s '}{show(part.first)} to {show(part.last)}"
