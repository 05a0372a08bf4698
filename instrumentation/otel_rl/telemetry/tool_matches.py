"""Which tool calls of a trajectory a model has asked for, matched by the ids that it gave them; and which are repeated.

Like :class:`otel_rl.telemetry.open_trajectory.OpenTrajectory`, which has both, nothing here locks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: Most ids of calls of tools that are remembered.
MOST_TOOL_IDS = 128


class AskedTool:
    """A call of a tool that a model has asked for.

    Attributes:
        name: of the tool.
        group: what it has in common with the others of its answer.
        has_run: a call with its id is counted.
    """

    __slots__ = ("group", "has_run", "name")

    def __init__(self, name: str, group: Any, *, has_run: bool) -> None:
        self.name = name
        self.group = group
        self.has_run = has_run


class ToolMatches:
    """The calls of tools of one trajectory by the ids of its model.

    Attributes:
        asked: calls that a model has asked for and that wait for their results, by id.
        by_result: counted calls that only their results show, and ``unknown`` those whose results do not say a failure.
        by_id: counted calls with the id of one that a model has asked for.
        unasked: counted calls by their ids, which no answer has been seen to ask for yet: it may be parsed later.
    """

    __slots__ = ("asked", "by_id", "by_result", "unasked", "unknown")

    def __init__(self) -> None:
        self.asked: dict[str, AskedTool] = {}
        self.by_result = self.by_id = self.unknown = 0
        self.unasked: dict[str, int] = {}

    def count_run(self, identifier: str) -> None:
        """Match a call that has run with the one that a model has asked for by this id, now or later."""
        asked = self.asked.get(identifier)
        if asked is not None:
            asked.has_run = True
            self.by_id += 1
        elif identifier in self.unasked or len(self.unasked) < MOST_TOOL_IDS:
            self.unasked[identifier] = self.unasked.get(identifier, 0) + 1

    def ask(self, identifier: str, name: str, group: Any) -> None:
        """Add a call that an answer asks for, which may have run by now: the program read the answer first."""
        runs = self.unasked.pop(identifier, 0)
        self.by_id += runs
        self.asked[identifier] = AskedTool(name, group, has_run=runs > 0)

    def unmatched(self, tool_calls: int) -> int:
        """Return how many of ``tool_calls``, the counted ones, match no call that a model has asked for."""
        return tool_calls - self.by_result - self.by_id


class FailedCall(NamedTuple):
    """A call of a tool that failed: its name, a hash of its arguments, and how often it had been repeated by then."""

    name: str
    mark: int
    retry: int


class ToolRow:
    """Tool calls in a row, by hashes: those of one run of an agent, or those of a trajectory outside of all runs.

    Attributes:
        trajectory: the one in which the agent runs.
        failed: the last call that failed, until it is repeated and succeeds, or one without a hash fails.
    """

    __slots__ = ("_last", "_length", "failed", "trajectory")

    def __init__(self, trajectory: object = None) -> None:
        self.trajectory = trajectory
        self.failed: FailedCall | None = None
        self._last: tuple[str, int, int] | None = None
        self._length = 0

    def add(self, tool: str, arguments: int | None, result: int | None) -> int:
        """Add a call that has ended; return how many in a row were the same, which nothing without a hash is."""
        last = None if arguments is None or result is None else (tool, arguments, result)
        self._length = self._length + 1 if last is not None and last == self._last else 1
        self._last = last
        return self._length
