"""The table of trajectories: a row per sample, and only columns that a row fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_rl.report.core.statistics import Spread
    from otel_rl.report.subjects.trajectories.groups import IterationGroups
    from otel_rl.store.tables.samples import Row

#: Reward functions with a column of their own.
_FUNCTIONS = 6
#: Values of the program's own with a column.
_METRICS = 6
#: Turns whose rewards are listed.
_TURNS = 12
_TONES = {Status.FAILED: "bad", Status.CANCELLED: "muted", Status.DISCARDED: "muted"}
_NUMBERS = (
    ("Advantage", names.RL_ROLLOUT_ADVANTAGE),
    ("Turns", names.RL_ROLLOUT_TURNS),
    ("Model calls", names.RL_ROLLOUT_MODEL_CALLS),
    ("failed", names.RL_ROLLOUT_MODEL_ERRORS),
    ("Tool calls", names.RL_ROLLOUT_TOOL_CALLS),
    ("failed ", names.RL_ROLLOUT_TOOL_ERRORS),
    ("Input tokens", names.RL_ROLLOUT_INPUT_TOKENS),
    ("Output tokens", names.RL_ROLLOUT_OUTPUT_TOKENS),
    ("Judge calls", names.RL_ROLLOUT_JUDGE_CALLS),
    ("failed  ", names.RL_ROLLOUT_JUDGE_ERRORS),
    ("Judge input tokens", names.RL_ROLLOUT_JUDGE_INPUT_TOKENS),
    ("Judge output tokens", names.RL_ROLLOUT_JUDGE_OUTPUT_TOKENS),
    ("Model calls of tools", names.RL_ROLLOUT_TOOL_MODEL_CALLS),
    ("failed   ", names.RL_ROLLOUT_TOOL_MODEL_ERRORS),
    ("Input tokens of tools", names.RL_ROLLOUT_TOOL_MODEL_INPUT_TOKENS),
    ("Output tokens of tools", names.RL_ROLLOUT_TOOL_MODEL_OUTPUT_TOKENS),
)


def trajectories(rows: dict[str, Row], listed: dict[str, str], said: Mapping[object, str]) -> Table:
    """Build the table.

    Args:
        rows: by a key of the page.
        listed: trace -> place of the page with its spans.
        said: trace, or name, iteration and rank of a sample -> place of the page with what was said in it.
    """
    all_rows = list(rows.values())
    columns: list[tuple[str, Callable[[Row], Value]]] = [
        ("Trajectory", _text_cells(names.RL_ROLLOUT_ID)),
        ("Text", lambda row: _said(row, said)),
        (">Step", lambda row: number_cell(row.iteration)),
        (">Rank", lambda row: number_cell(row.rank)),
        ("Sample", _text_cells(names.RL_SAMPLE_ID)),
        ("Agent", _text_cells(names.GEN_AI_AGENT_NAME)),
        ("Conversation", _text_cells(names.GEN_AI_CONVERSATION_ID)),
        ("Group", _text_cells(names.RL_GROUP_ID)),
        (">Attempt", _number_cells(names.RL_ROLLOUT_ATTEMPT)),
        ("Status", _status),
        (">Reward", _reward),
        ("By turn", _by_turn),
        *_scores(all_rows),
        *_metrics(all_rows),
        *[(f">{title.strip()}", _number_cells(name)) for title, name in _NUMBERS],
        ("Stopped by", _text_cells(names.RL_ROLLOUT_STOP_REASON)),
        (">Took", lambda row: seconds_cell(row.number(names.RL_ROLLOUT_SECONDS))),
        ("Succeeded", lambda row: _yes_or_no(row, names.RL_ROLLOUT_SUCCESS)),
        ("Trained", lambda row: _yes_or_no(row, names.RL_ROLLOUT_TRAINED)),
        ("Policy", _policy),
        ("Spans", lambda row: _spans(row, listed)),
    ]
    titles = [title for title, _ in columns]
    cells = [[make(row) for _, make in columns] for row in all_rows]
    return Table(titles, cells, shown=20, filters=True).without_empty(*titles[1:])


def durations(by_outcome: dict[str, Spread]) -> Table:
    """Return how long trajectories took, by what became of them."""
    table = Table(("Outcome", ">Number", ">Median", ">95 %", ">Longest"))
    for outcome, spread in by_outcome.items():
        seconds = spread.quantile(0.5), spread.quantile(0.95), spread.cell.maximum
        table.rows.append([Value(outcome), number_cell(spread.cell.count), *map(seconds_cell, seconds)])
    return table


def groups(steps: list[IterationGroups]) -> Table:
    """Return the groups whose rewards are all equal, by step."""
    table = Table((">Step", ">Groups", ">All equal"))
    table.rows = [[number_cell(number) for number in (step.iteration, step.groups, step.dead)] for step in steps]
    return table


def groups_and_tokens(steps: list[IterationGroups]) -> Table:
    """Return the groups whose rewards are all equal and the tokens with an advantage, by step."""
    table = Table((">Step", ">Groups", ">All equal", ">Tokens trained on", ">Effective", ">Share"))
    for step in steps:
        share = step.effective / step.tokens if step.tokens else None
        shown = Value("" if share is None else human.percent(share), share)
        numbers = step.iteration, step.groups, step.dead, step.tokens, step.effective
        table.rows.append([*map(number_cell, numbers), shown])
    return table


def _text_cells(name: str) -> Callable[[Row], Value]:
    return lambda row: Value(str(row.get(name) or ""))


def _number_cells(name: str) -> Callable[[Row], Value]:
    def _cell(row: Row) -> Value:
        # Whether a call failed that only messages show is not known.
        is_lacking = name == names.RL_ROLLOUT_TOOL_ERRORS and name not in row.columns
        is_unknown = is_lacking and row.number(names.RL_ROLLOUT_TOOL_CALLS)
        return Value("unknown", tone="muted") if is_unknown else number_cell(row.number(name))

    return _cell


def _scores(rows: list[Row]) -> list[tuple[str, Callable[[Row], Value]]]:
    """Return a column per reward function, where there are several."""
    functions = list(dict.fromkeys(name for row in rows for name in row.scores))
    if len(functions) < 2:  # noqa: PLR2004 - the reward says it
        return []

    def score(name: str) -> Callable[[Row], Value]:
        return lambda row: number_cell(row.scores.get(name))

    return [(f">{name}", score(name)) for name in functions[:_FUNCTIONS]]


def _metrics(rows: list[Row]) -> list[tuple[str, Callable[[Row], Value]]]:
    """Return a column for each value that the program has named."""

    def metric(name: str) -> Callable[[Row], Value]:
        return lambda row: number_cell(row.metrics.get(name))

    return [
        (f">{name}", metric(name))
        for name in list(dict.fromkeys(key for row in rows for key in row.metrics))[:_METRICS]
    ]


def _status(row: Row) -> Value:
    status = str(row.get(names.RL_ROLLOUT_STATUS) or "")
    reason = row.get(names.RL_ROLLOUT_DISCARD_REASON)
    return Value(f"{status}: {reason}" if reason else status, tone=_TONES.get(status, ""))


def _reward(row: Row) -> Value:
    reward = row.number(names.RL_ROLLOUT_REWARD)
    if row.get(names.RL_ROLLOUT_SUSPECT):
        return Value(f"{human.number(reward)} (after a failure)", reward, "bad")
    return number_cell(reward)


def _by_turn(row: Row) -> Value:
    """Return rewards of the turns; one without a reward is a dash."""
    rewards = row.get(names.RL_ROLLOUT_TURN_REWARDS)
    if not isinstance(rewards, list):
        return Value("")
    shown = [human.number(reward) if isinstance(reward, (int, float)) else human.UNKNOWN for reward in rewards[:_TURNS]]
    return Value(" ".join(shown + ["..."] * (len(rewards) > _TURNS)))


def _yes_or_no(row: Row, name: str) -> Value:
    value = row.get(name)
    return Value("" if value is None else "yes" if value else "no")


def _policy(row: Row) -> Value:
    lowest, highest = (row.get(f"{_VERSION}.{end}") for end in ("min", "max"))
    if lowest is not None and highest is not None:
        return Value(str(lowest) if lowest == highest else f"{lowest} to {highest}", row.number(f"{_VERSION}.max"))
    return Value(str(row.get(names.RL_POLICY_VERSION) or ""))


_VERSION = names.RL_ROLLOUT_POLICY_VERSION_MIN.removesuffix(".min")


def _spans(row: Row, listed: dict[str, str]) -> Value:
    trace = str(row.get(names.RL_ROLLOUT_TRACE_ID) or "")
    return Value(trace[:16], tone="muted", link=listed.get(trace, ""))


def _said(row: Row, said: Mapping[object, str]) -> Value:
    key = str(row.get(names.RL_ROLLOUT_ID) or ""), row.iteration, row.rank
    place = said.get(key) or said.get(str(row.get(names.RL_ROLLOUT_TRACE_ID) or ""), "")
    return Value("read" if place else "", link=place)
