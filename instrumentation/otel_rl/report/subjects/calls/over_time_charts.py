"""Charts over the steps of what is called: durations, times to the first chunk, retries, failures, rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core.blocks import PageBlock
from otel_rl.report.core.over_time import Line, merged
from otel_rl.report.subjects.calls.calls_over_time import MODEL, TOOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.report.core.charts import Charts, Drawing
    from otel_rl.report.core.collected import Collected

_SHARE, _SECONDS = "share of the calls", "seconds"
_FEWEST = 2


def tools(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Duration and failures by tool."""
    found = collected.calls.over_time
    seconds = _of_kind(found.seconds.lines(), TOOL, lambda called: called.name)
    failed = _of_kind(found.failed.lines(), TOOL, lambda called: called.name)
    return _block(
        _lines(charts, "tool-seconds", "Duration of a call", "mean of the step", seconds, _SECONDS),
        _lines(charts, "tool-failed", "Failed calls", "", _some(failed), _SHARE),
    )


def models(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Latency, time to the first chunk, retries and failures by model and server."""
    found = collected.calls.over_time
    all_series = (found.seconds, found.first_chunk, found.retried, found.failed)
    seconds, first_chunk, retried, failed = (_of_kind(series.lines(), MODEL, _model) for series in all_series)
    return _block(
        _lines(charts, "model-seconds", "Duration of a call", "mean of the step", seconds, _SECONDS),
        _lines(charts, "model-first-chunk", "Time to the first chunk", "mean of the step", first_chunk, _SECONDS),
        _lines(charts, "model-retried", "Retried calls", "sent more than once by the client", _some(retried), _SHARE),
        _lines(charts, "model-failed", "Failed calls", "", _some(failed), _SHARE),
    )


def rollouts(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Duration and reward of rollouts by rank."""
    found = collected.calls.rollouts
    hint = "mean of the step, by rank"
    return _block(
        _lines(charts, "rollout-seconds", "Duration of a rollout", hint, _by_rank(found.seconds.lines()), _SECONDS),
        _lines(charts, "rollout-reward", "Reward of a rollout", hint, _by_rank(found.rewards.lines()), "reward"),
    )


def rewards(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Duration of the reward functions by rank, and their scores."""
    functions = {_place(*key): line for key, line in collected.rewards.functions.lines().items()}
    scores = {_place(*key): line for key, line in collected.rewards.scores_over_time.lines().items() if line.by_step}
    return _block(
        _lines(charts, "reward-seconds", "Duration of a reward function", "mean of the step", functions, _SECONDS),
        _lines(charts, "reward-scores", "Scores", "mean of the step", scores, "score"),
    )


def _place(name: str, rank: int | None) -> str:
    return name if rank is None else f"{name}, rank {rank}"


def _by_rank(lines: dict[Any, Line]) -> dict[str, Line]:
    return {"all" if rank is None else f"rank {rank}": line for rank, line in lines.items()}


def _model(called: Any) -> str:
    return f"{called.name} at {called.place}" if called.place else str(called.name)


def _of_kind(lines: dict[Any, Line], kind: str, name: Callable[[Any], str]) -> dict[str, Line]:
    return merged({called: line for called, line in lines.items() if called.kind == kind}, name)


def _some(lines: dict[str, Line]) -> dict[str, Line]:
    """A chart of nothing but zeros says less than its absence."""
    return lines if any(cell.total for line in lines.values() for cell in line.cells) else {}


def _lines(charts: Charts, key: str, title: str, hint: str, lines: dict[str, Line], unit: str) -> Drawing | None:
    drawn = {name: line for name, line in lines.items() if len(line.x) >= _FEWEST}
    return charts.over_time(key, title, hint, drawn, unit) if drawn else None


def _block(*drawings: Drawing | None) -> list[PageBlock]:
    found = [drawing for drawing in drawings if drawing is not None]
    return [PageBlock(charts=found)] if found else []
