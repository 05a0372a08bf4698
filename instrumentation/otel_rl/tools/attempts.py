"""Which call of an agent repeats the failed one before it.

Each run of an agent remembers the last call that failed, by its name and a hash of its arguments. A trajectory does so
for its calls outside of all runs.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING

from otel_rl.telemetry.tool_matches import FailedCall
from otel_rl.tools.sizes import plain_size

if TYPE_CHECKING:
    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.tool_matches import ToolRow

#: Larger arguments are compared with nothing, in characters.
_LARGEST = 16_384
#: Stands for the result of a call that failed.
_FAILED = 0


def mark_of(arguments: object, size: int | None) -> int | None:
    """Return a number that stands for ``arguments`` of that size; None for unknown, large, deep or other ones."""
    if arguments is None or size is None or size > _LARGEST:
        return None
    try:
        # All of it is of Python's own types, so no code of the program writes it out.
        return hash(repr(arguments))
    except RecursionError:
        # How deep is too deep depends on where the program calls the tool.
        return None


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """A call of a tool among those of its trajectory, from its start to :meth:`ended`."""

    trajectory: OpenTrajectory
    name: str
    arguments: InitVar[object]
    size: InitVar[int | None] = None
    call_id: str | None = None
    #: Number of the repetition, from 1; 0 for a call that repeats none.
    retry: int = field(init=False)
    _mark: int | None = field(init=False)
    _row: ToolRow = field(init=False)
    _result: int | None = None

    def __post_init__(self, arguments: object, size: int | None) -> None:
        trajectory = self.trajectory
        self._row = trajectory.row_here()
        self._mark = mark_of(arguments, plain_size(arguments) if size is None else size)
        trajectory.calling[self.name] = trajectory.calling.get(self.name, 0) + 1
        self.retry = number_of(self._row.failed, self.name, self._mark)
        if self.retry:
            trajectory.tool_retries += 1

    def returned(self, result: object) -> None:
        """Note what the tool returned."""
        self._result = mark_of(result, plain_size(result))

    def ended(self, *, failed: bool) -> None:
        """Count a call whose tool has returned or failed."""
        self.trajectory.calling[self.name] -= 1
        self.trajectory.add_to_row(self._row, self.name, self._mark, _FAILED if failed else self._result)
        self.trajectory.tool_call_ended(failed=failed, call_id=self.call_id)
        if failed and self._mark is not None:
            self._row.failed = FailedCall(self.name, self._mark, self.retry)
        elif failed or self.retry:
            self._row.failed = None


def number_of(failed: FailedCall | None, name: str, mark: int | None) -> int:
    """Return the number of the repetition, where the call of this name and mark repeats ``failed``; else 0."""
    is_same = failed is not None and mark is not None and failed.name == name and failed.mark == mark
    return failed.retry + 1 if is_same and failed is not None else 0
