"""Joins what was said of trajectories later, or in other processes, to their rows.

A change names the trace and the id of its rollout, or one of them, or the id of the sample; what several rows have is
joined to none. What a reader knows of changes and rows beforehand (:meth:`ChangedTrajectories.look_ahead`) is joined as
the rows pass by. A reader of a run that goes on holds the latest records back instead, for what may still come.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human, joined_versions, trajectory_names
from otel_rl.report.core.joined_versions import JoinedVersions
from otel_rl.report.core.pending_trajectories import PendingTrajectories
from otel_rl.report.core.trajectory_names import at
from otel_rl.report.core.trajectory_rows import LATER_REWARD
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.semconv.attributes import RlRolloutStatusValues as Status
from otel_rl.telemetry import side_calls
from otel_rl.training.lowest_rewards import LowestRewards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_rl.store.reader import Log, Reader
    from otel_rl.training.trajectory_shares import TrajectoryName

#: Most trajectories whose changes are known at once.
MAXIMUM_CHANGED = 200_000
#: Records that a reader of a run that goes on holds back, of 512 rows at most.
HELD_RECORDS = 64
#: Columns that add up.
_COUNTS = (
    names.RL_ROLLOUT_TURNS,
    names.RL_ROLLOUT_MODEL_CALLS,
    names.RL_ROLLOUT_MODEL_ERRORS,
    names.RL_ROLLOUT_INPUT_TOKENS,
    names.RL_ROLLOUT_OUTPUT_TOKENS,
    names.RL_ROLLOUT_TOOL_CALLS,
    names.RL_ROLLOUT_TOOL_ERRORS,
    names.RL_ROLLOUT_TOOL_RETRIES,
    names.RL_ROLLOUT_SPAN_ERRORS,
    names.RL_ROLLOUT_CHILD_CALLS,
    names.RL_ROLLOUT_SERVICE_CALLS,
    names.RL_ROLLOUT_SERVICE_SECONDS,
    *(name for columns in side_calls.COLUMNS.values() for name in columns),
    names.RL_ROLLOUT_REWARD,
)
#: Columns of which the last word counts.
_JUDGEMENTS = (
    names.RL_ROLLOUT_TRAINED,
    names.RL_ROLLOUT_ADVANTAGE,
    names.RL_ROLLOUT_AGE,
    names.RL_ROLLOUT_SUCCESS,
    names.RL_ROLLOUT_DISCARD_REASON,
)
_ERRORS = (
    names.RL_ROLLOUT_MODEL_ERRORS,
    names.RL_ROLLOUT_TOOL_ERRORS,
    names.RL_ROLLOUT_SPAN_ERRORS,
    names.RL_ROLLOUT_JUDGE_ERRORS,
    names.RL_ROLLOUT_TOOL_MODEL_ERRORS,
)
_NAMED = (
    (names.RL_REWARD_NAMES, names.RL_REWARD_SCORES),
    (names.RL_ROLLOUT_METRIC_NAMES, names.RL_ROLLOUT_METRIC_VALUES),
)


@dataclass(slots=True)
class _JoinedChange:
    """All that is said of one trajectory."""

    counts: dict[str, float] = field(default_factory=dict)
    #: Time of the record that says it, and what it says.
    judgements: dict[str, tuple[int, Any]] = field(default_factory=dict)
    turns: dict[int, float] = field(default_factory=dict)
    #: Scores, and values of the program, by name.
    named: tuple[dict[str, float], dict[str, float]] = field(default_factory=lambda: ({}, {}))
    weights: dict[str, Any] = field(default_factory=dict)
    estimator: tuple[int, Any] = (0, None)
    #: Time of the record that says it, and why the last answer of a child stopped.
    stopped: tuple[int, Any] = (0, None)
    versions: JoinedVersions | None = None
    #: Time of the latest record with a reward.
    rewarded: int = 0
    #: How often something was said.
    said: int = 0

    def add(self, body: dict[str, list[Any]], place: int, log: Log) -> None:
        self.said += 1
        for name in _COUNTS:
            value = _number(at(body.get(name), place))
            if value is not None:
                self.counts[name] = self.counts.get(name, 0) + value
                if name == names.RL_ROLLOUT_REWARD:
                    self.rewarded = max(self.rewarded, log.time)
        self._judge(body, place, log)
        self._add_answers(body, place, log)
        of_turns = at(body.get(names.RL_ROLLOUT_TURN_REWARDS), place)
        for turn, reward in enumerate(of_turns if isinstance(of_turns, list) else (), 1):
            if _number(reward) is not None:
                self.turns[turn] = self.turns.get(turn, 0.0) + reward
        for sums, (names_of, values_of) in zip(self.named, _NAMED, strict=True):
            self._add_named(sums, body, (names_of, values_of), place)

    def _judge(self, body: dict[str, list[Any]], place: int, log: Log) -> None:
        for name in _JUDGEMENTS:
            value = at(body.get(name), place)
            if value is not None and log.time >= self.judgements.get(name, (0,))[0]:
                self.judgements[name] = log.time, value
                if name == names.RL_ROLLOUT_ADVANTAGE:
                    self.estimator = log.time, log.attributes.get(names.RL_ADVANTAGE_ESTIMATOR)

    def _add_answers(self, body: dict[str, list[Any]], place: int, log: Log) -> None:
        reason = at(body.get(names.RL_ROLLOUT_STOP_REASON), place)
        if reason is not None and log.time >= self.stopped[0]:
            self.stopped = log.time, reason
        if any(at(body.get(name), place) is not None for name in joined_versions.COLUMNS):
            self.versions = self.versions or JoinedVersions()
            self.versions.add(lambda name: at(body.get(name), place))

    def _add_named(self, sums: dict[str, float], body: dict[str, list[Any]], of: tuple[str, str], place: int) -> None:
        weights = body.get(names.RL_REWARD_WEIGHTS)
        for number, (name, values) in enumerate(zip(*(body.get(key, ()) for key in of), strict=False)):
            value = _number(at(values, place))
            if value is None:
                continue
            sums[str(name)] = sums.get(str(name), 0.0) + value
            if of[0] == names.RL_REWARD_NAMES:
                self._weigh(str(name), at(weights, number) if weights is not None else 1)

    def _weigh(self, name: str, weight: Any) -> None:
        self.weights[name] = weight if self.weights.get(name, weight) == weight else None


class ChangedTrajectories:
    """Takes in records of trajectories and of changes; gives the former back with the latter in them."""

    def __init__(self, held: int = HELD_RECORDS) -> None:
        #: What waits for its row.
        self._changes: dict[TrajectoryName, list[_JoinedChange]] = {}
        #: Names that find no further row in a run that goes on: a row had it before, or several have it.
        self._over: set[TrajectoryName] = set()
        #: How many rows have a name: of those that are held, or of all, as far as a change has it.
        self._rows: Counter[TrajectoryName] = Counter()
        self._held: deque[Log] = deque()
        self._most_held = held
        self._lowest = LowestRewards()
        #: Whether all changes of the run are known, of rows that are still to come.
        self.is_complete = False
        #: Changes that had no room, here or where they were said.
        self.left_out = 0
        #: Changes that name several rows, and are in none of them.
        self.ambiguous = 0

    @property
    def unknown(self) -> int:
        """How many changes name no trajectory."""
        return sum(change.said for changes in self._changes.values() for change in changes)

    def look_ahead(self, reader: Reader) -> None:
        """Read all changes of the run, and where there are some all rows: each row passes on at once then."""
        for log in reader.events(events.RL_TRAJECTORIES_CHANGES.name):
            self._take(log)
        self.is_complete, self._most_held = True, 0
        if not self._changes:
            return
        wanted = self._changes.keys() | {trajectory_names.without_trace(name) for name in self._changes}
        for log in _rows_of(reader):
            self._rows.update(name for _, name in trajectory_names.of_rows(log.body) if name in wanted)
        self._settle()
        self._rows.clear()
        # What the lowest reward is, all later scores say together.
        for log in _rows_of(reader):
            self._with_changes(log, list(self._found(log))).learn_lowest()

    def _settle(self) -> None:
        for name in list(self._changes):
            by_id = trajectory_names.without_trace(name)
            if by_id != name and not self._rows[name]:
                # Said inside of the rollout, in a trace of the program's own.
                self._changes.setdefault(by_id, []).extend(self._changes.pop(name))
        for name in [name for name in self._changes if self._rows[name] > 1]:
            self.ambiguous += sum(change.said for change in self._changes.pop(name))

    def add_log(self, log: Log) -> Iterator[Log]:
        """Take in a record; yield those that count from now on, this one or earlier ones."""
        if log.event == events.RL_TRAJECTORIES_CHANGES.name:
            if not self.is_complete:
                self._take(log)
            return
        if log.event != events.RL_TRAJECTORIES.name or not isinstance(log.body, dict):
            yield log
            return
        if not self._most_held and not self._changes:
            yield log
            return
        self._held.append(log)
        if not self.is_complete:
            self._rows.update(name for _, name in trajectory_names.of_rows(log.body))
        while len(self._held) > self._most_held:
            yield self._joined_to(self._held.popleft())

    def close(self) -> Iterator[Log]:
        """Yield what was held back."""
        while self._held:
            yield self._joined_to(self._held.popleft())

    def _take(self, log: Log) -> None:
        self.left_out += int(_number(log.attributes.get(names.RL_TRAJECTORIES_LEFT_OUT)) or 0)
        if not isinstance(log.body, dict):
            return
        body = {str(key): values for key, values in log.body.items() if isinstance(values, list)}
        for place in range(trajectory_names.count(body)):
            name = trajectory_names.of_change(body, place)
            if name is None:
                continue
            if name in self._changes or len(self._changes) < MAXIMUM_CHANGED:
                self._changes.setdefault(name, [_JoinedChange()])[0].add(body, place, log)
            else:
                self.left_out += 1

    def _joined_to(self, log: Log) -> Log:
        """Return the record with the changes of its rows in it."""
        found = list(self._found(log))
        if self.is_complete and not found:
            return log
        rows = self._with_changes(log, found)
        if not self.is_complete:
            self._release(log)
            rows.learn_lowest()
        for place, _ in found:
            rows.mark(place)
        changes = [(place, change) for place, name in found for change in self._changes.pop(name, ())]
        return _with(log, rows, changes) if changes else log

    def _release(self, log: Log) -> None:
        """Count the rows of a record that is no longer held, and note the names that are used up."""
        for _, name in trajectory_names.of_rows(log.body):
            if name in self._changes:
                self._over.add(name)
            self._rows[name] -= 1
            if not self._rows[name]:
                del self._rows[name]

    def _found(self, log: Log) -> Iterator[tuple[int, TrajectoryName]]:
        """Yield the rows of the record that changes name, with their names."""
        for place, name in trajectory_names.of_rows(log.body):
            if name in self._changes and (self.is_complete or (self._rows[name] == 1 and name not in self._over)):
                yield place, name

    def _with_changes(self, log: Log, found: list[tuple[int, TrajectoryName]]) -> _Body:
        count = max((len(values) for key, values in log.body.items() if _is_of_rows(key, values)), default=0)
        body = {key: list(values) if isinstance(values, list) else values for key, values in log.body.items()}
        rows = _Body(body, count, self._lowest)
        for place, name in found:
            for change in self._changes[name]:
                rows.add(place, change)
        return rows


def _rows_of(reader: Reader) -> Iterator[Log]:
    """Yield the records whose rows count."""
    pending = PendingTrajectories()
    logs = reader.events(events.RL_TRAJECTORIES.name, events.RL_TRAJECTORIES_PENDING.name)
    yield from (log for log in logs if isinstance(log.body, dict) and pending.add_log(log))
    yield from (log for log in pending.close() if isinstance(log.body, dict))


def said_of(changed: ChangedTrajectories) -> list[str]:
    """Return sentences about changes that are in no row."""
    said = []
    if changed.unknown and changed.is_complete:
        said.append(f"{_amount(changed.unknown, 'names', 'name')} no rollout of this run.")
    elif changed.unknown:
        said.append(
            f"{_amount(changed.unknown, 'is', 'are')} in no row here: of rollouts that were counted before or of none,"
            " as `otel-rl report` tells."
        )
    if changed.ambiguous:
        said.append(
            f"{_amount(changed.ambiguous, 'names', 'name')} several rollouts of this run, and joined none of them."
        )
    if changed.left_out:
        said.append(f"{_amount(changed.left_out, 'was', 'were')} dropped: too many at once.")
    return said


def _amount(number: int, one: str, several: str) -> str:
    return f"{human.amount(number, f'later score or judgement {one}', f'later scores or judgements {several}')}"


def _with(log: Log, rows: _Body, found: list[tuple[int, _JoinedChange]]) -> Log:
    estimators = set()
    for place, change in found:
        rows.mark_later_reward(place, change, log.time)
        if names.RL_ROLLOUT_ADVANTAGE in change.judgements:
            estimators.add(change.estimator[1])
    attributes = dict(log.attributes)
    if estimators:
        # Of advantages by several formulas none is known.
        had = log.body.get(names.RL_ROLLOUT_ADVANTAGE)
        if isinstance(had, list) and any(value is not None for value in had):
            estimators.add(attributes.get(names.RL_ADVANTAGE_ESTIMATOR))
        estimator = estimators.pop() if len(estimators) == 1 else None
        attributes.pop(names.RL_ADVANTAGE_ESTIMATOR, None)
        if estimator is not None:
            attributes[names.RL_ADVANTAGE_ESTIMATOR] = estimator
    return replace(log, body=rows.body, attributes=attributes)


class _Body:
    """Columns of a record that are written to."""

    def __init__(self, body: dict[str, Any], count: int, lowest: LowestRewards) -> None:
        self.body = body
        self._count = count
        self._lowest = lowest

    def functions(self, place: int) -> list[str]:
        """Return what has scored a row."""
        known = zip(*(self.body.get(name) or () for name in _NAMED[0]), strict=False)
        return [str(name) for name, column in known if at(column, place) is not None]

    def learn_lowest(self) -> None:
        """Take in the rewards of all rows."""
        for place, reward in enumerate(self.body.get(names.RL_ROLLOUT_REWARD) or ()):
            self._lowest.add(self.functions(place), (_number(reward),))

    def mark_later_reward(self, place: int, change: _JoinedChange, recorded: int) -> None:
        """Mark a row whose reward changed in a later record than the one, of time ``recorded``, with its advantage."""
        told = change.judgements.get(names.RL_ROLLOUT_ADVANTAGE)
        known = told is not None or self._value(names.RL_ROLLOUT_ADVANTAGE, place) is not None
        if known and change.rewarded > (recorded if told is None else told[0]):
            self._column(LATER_REWARD)[place] = True

    def add(self, place: int, change: _JoinedChange) -> None:
        for name, value in change.counts.items():
            column = self._column(name)
            total = (_number(column[place]) or 0) + value
            column[place] = int(total) if name != names.RL_ROLLOUT_REWARD else total
        for name, (_, said) in change.judgements.items():
            self._column(name)[place] = said
        if change.stopped[1] is not None and self._value(names.RL_ROLLOUT_STOP_REASON, place) is None:
            self._column(names.RL_ROLLOUT_STOP_REASON)[place] = change.stopped[1]
        if change.versions is not None:
            change.versions.add(lambda name: self._value(name, place))
            for name, known in change.versions.columns().items():
                self._column(name)[place] = known
        if change.turns:
            self._add_to_turns(place, change.turns)
        self._add_named(place, change)
        status = self._column(names.RL_ROLLOUT_STATUS)
        if names.RL_ROLLOUT_DISCARD_REASON in change.judgements and status[place] in (None, Status.FINISHED):
            status[place] = Status.DISCARDED

    def mark(self, place: int) -> None:
        """Say anew whether the reward of a row is suspect."""
        status = self._column(names.RL_ROLLOUT_STATUS)
        failed = status[place] in (Status.FAILED, Status.CANCELLED) or any(self._value(name, place) for name in _ERRORS)
        reward = self._value(names.RL_ROLLOUT_REWARD, place)
        is_suspect = failed and reward is not None and reward == self._lowest.lowest(self.functions(place))
        if is_suspect or self._value(names.RL_ROLLOUT_SUSPECT, place):
            self._column(names.RL_ROLLOUT_SUSPECT)[place] = True if is_suspect else None

    def _column(self, name: str) -> list[Any]:
        column = self.body.get(name)
        if not isinstance(column, list):
            column = self.body[name] = []
        column.extend([None] * (self._count - len(column)))
        return column

    def _value(self, name: str, place: int) -> Any:
        return at(self.body.get(name), place)

    def _add_to_turns(self, place: int, turns: dict[int, float]) -> None:
        had = self._value(names.RL_ROLLOUT_TURN_REWARDS, place)
        rewards = list(had) if isinstance(had, list) else []
        rewards += [None] * (max(turns) - len(rewards))
        for turn, reward in turns.items():
            rewards[turn - 1] = (_number(rewards[turn - 1]) or 0.0) + reward
        self._column(names.RL_ROLLOUT_TURN_REWARDS)[place] = rewards
        sums = list(accumulate(_number(reward) or 0.0 for reward in rewards))
        self._column(names.RL_ROLLOUT_CUMULATIVE_REWARDS)[place] = sums

    def _add_named(self, place: int, change: _JoinedChange) -> None:
        for sums, (names_of, values_of) in zip(change.named, _NAMED, strict=True):
            for name, value in sums.items():
                column = self._named(names_of, values_of, name, change)
                column[place] = (_number(column[place]) or 0.0) + value

    def _named(self, names_of: str, values_of: str, name: str, change: _JoinedChange) -> list[Any]:
        """Return the column of scores, or of values of the program, with this name."""
        known = self.body.get(names_of)
        values = self.body.get(values_of)
        if not isinstance(known, list) or not isinstance(values, list):
            known, values = [], []
        is_new = name not in known
        number = len(known) if is_new else known.index(name)
        known = [*known, name] if is_new else known
        values = [list(column) if isinstance(column, list) else [] for column in values]
        values += [[] for _ in range(number + 1 - len(values))]
        values[number] += [None] * (self._count - len(values[number]))
        self.body[names_of], self.body[values_of] = known, values
        if names_of == names.RL_REWARD_NAMES:
            self._weigh(number, change.weights.get(name, 1), is_new=is_new)
        column: list[Any] = values[number]
        return column

    def _weigh(self, number: int, weight: Any, *, is_new: bool) -> None:
        weights = self.body.get(names.RL_REWARD_WEIGHTS)
        weights = list(weights) if isinstance(weights, list) else []
        weights += [1] * (number + 1 - len(weights))
        weights[number] = weight if is_new or weights[number] == weight else None
        if any(value != 1 for value in weights):
            self.body[names.RL_REWARD_WEIGHTS] = weights


def _is_of_rows(key: str, values: Any) -> bool:
    """Return whether a column has a value per row; names, and what belongs to them, are as many as there are names."""
    return isinstance(values, list) and key != names.RL_REWARD_WEIGHTS and not any(key in named for named in _NAMED)


def _number(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) else None
