"""What the calls of one trajectory add up to, while it is open.

The context holds it. So model calls, tool calls and rewards find it in every thread, task and generator that goes on
with the trajectory, and nothing else does: a trajectory that never ends is freed with its context. A forked child has a
share of its own (:mod:`otel_rl.training.trajectory_shares`). A task that outlives its trajectory is part of none from
the end on.

Counting a call takes no lock. ``x += 1`` on a slot runs in one piece in CPython 3.10 and later, where the interpreter
lock is only given up at calls and backward jumps. Without that lock two threads that end a call at once could count as
one. Sums by name have a call in the middle, so scores and values of the program take :data:`adding`.
"""

from __future__ import annotations

import math
import os
import threading
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from opentelemetry.context import create_key, get_current, get_value, set_value
from opentelemetry.trace import get_current_span

from otel_rl.telemetry import lifecycle, progress
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.model_turns import ModelTurns, OpenModelCall
from otel_rl.telemetry.side_calls import SideCalls
from otel_rl.telemetry.tool_matches import ToolMatches, ToolRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextvars import Token

    from opentelemetry.context import Context

_KEY, _ROW = create_key("otel_rl.trajectory"), create_key("otel_rl.tool_row")
#: The same, where other instrumentors make contexts of theirs current that do not have it.
_entered: ContextVar[OpenTrajectory | None] = ContextVar("otel_rl_trajectory", default=None)
#: Most names of rewards of one trajectory; scores under further ones count in the sum only. So many metrics, too.
MAXIMUM_REWARDS = 32
#: Most turns of one trajectory whose rewards are kept apart; rewards of further ones count in the sum only.
MAXIMUM_TURNS = 512
#: Most model calls of one trajectory that wait for the program to parse their answers; then the first is counted.
MOST_UNPARSED = 64
#: Longest name, id or reason, in characters.
MAXIMUM_LENGTH = 256

#: Held where scores and values by name are added, for a moment and never around code of the program. A signal handler
#: may score in the middle of one.
adding = threading.RLock()


class UnparsedCall(Protocol):
    """A model call whose answer has been read."""

    def finish(self) -> None:
        """End it with what the answer says; it counts in its trajectory."""


class WeaklyHeld:
    """Has the one slot that a class with ``slots=True`` cannot ask for before Python 3.11."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False, repr=False)
class OpenTrajectory(WeaklyHeld):
    """Counters of one trajectory; a token count is None as long as no answer has one."""

    #: Its ``rl.rollout.id``, where the baggage does not have it.
    identifier: str | None = None
    model_calls: int = 0
    model_errors: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    span_errors: int = 0
    #: Requests to named services, and their seconds.
    service_calls: int = 0
    service_seconds: float = 0.0
    #: Tool calls that repeat the failed one before them.
    tool_retries: int = 0
    #: Calls outside of all runs of agents, and the longest row of equal calls anywhere: its tool and length.
    tool_row: ToolRow = field(default_factory=ToolRow)
    longest_row: tuple[str, int] = ("", 0)
    #: Calls of each tool that are open.
    calling: dict[str, int] = field(default_factory=dict)
    tool_matches: ToolMatches = field(default_factory=ToolMatches)
    #: Of ``inference.histories``: what calls have recorded, by the digest of all messages; None without content.
    histories: dict[bytes, Any] | None = None
    turns: ModelTurns = field(default_factory=ModelTurns)
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: Of the last turn, and that turn.
    stop_reason: str | None = None
    _stop_turn: int = 0
    #: Model calls that are no turns, by their role.
    side_calls: dict[str, SideCalls] = field(default_factory=dict)
    #: Versions of the weights that answered, by engine; filled by ``training.engine_versions``.
    versions: dict[Any, Any] = field(default_factory=dict)
    #: Weighted sum of all scores, the sum per name as the functions gave them, and weights that are not 1.
    #: None where scores of one name had several.
    reward: float | None = None
    rewards: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float | None] = field(default_factory=dict)
    #: Weighted sum of the scores of each turn, from turn 1 on.
    turn_rewards: dict[int, float] = field(default_factory=dict)
    #: The program's own values, by name.
    metrics: dict[str, float] = field(default_factory=dict)
    #: What the program says of its task.
    success: bool | None = None
    #: Set where the program trains on it: its advantage, the formula of that, and its age in seconds by then.
    trained: bool | None = None
    advantage: float | None = None
    estimator: str | None = None
    age: float | None = None
    #: Set where the program does not use the trajectory.
    discard_reason: str | None = None
    #: Model calls whose answers have been read, and parsed by nobody yet.
    unparsed: dict[UnparsedCall, None] = field(default_factory=dict)
    #: Nothing counts in it any more, but what names it.
    has_ended: bool = False
    #: Its row is made: what is said of it from now on is a change of that.
    is_recorded: bool = False
    #: Of the share of a forked child, what the parent has.
    forked_from: OpenTrajectory | None = None
    #: In a forked child it is the parent's.
    forks: int = field(default_factory=lambda: lifecycle.forks)
    #: What its row is found by: ``rl.rollout.id`` and ``rl.rollout.trace_id``.
    names: tuple[str | None, str | None] = (None, None)
    event_loop: int = 0

    def __post_init__(self) -> None:
        self.names = (self.identifier, None)
        progress.began_in_event_loop(progress.ROLLOUTS, self)

    def model_call_began(self, call: OpenModelCall) -> None:
        """Know a model call from its beginning on: it counts though it may never end."""
        first = self.turns.add(call)
        if first is not None:
            self.turns.number_open()
            self._count_open(first)

    def model_call_ended(
        self,
        tokens: tuple[int | None, int | None],
        reasons: Sequence[str] | None,
        *,
        failed: bool,
        turn: int | None = None,
    ) -> None:
        """Count a model call that has ended; ``tokens`` are input and output, where the server sent them.

        ``turn`` is the number of its answer, where that is one.
        """
        self.model_calls += 1
        if failed:
            self.model_errors += 1
        given, made = tokens
        if given is not None:
            self.input_tokens = (self.input_tokens or 0) + given
        if made is not None:
            self.output_tokens = (self.output_tokens or 0) + made
        if turn is None or turn >= self._stop_turn:
            # A last answer that was left before its reason has none, and not that of an earlier one.
            if reasons or turn is not None:
                self.stop_reason = reasons[-1] if reasons else None
            self._stop_turn = turn or self._stop_turn

    def side_call_ended(self, role: str, tokens: tuple[int | None, int | None], *, failed: bool) -> None:
        """Count a model call that is no turn: of a judge, or inside of a tool."""
        side = self.side_calls.get(role) or self.side_calls.setdefault(role, SideCalls())
        side.ended(tokens, failed=failed)

    def add_side_calls(self, role: str, calls: SideCalls) -> None:
        """Add model calls that are no turns."""
        (self.side_calls.get(role) or self.side_calls.setdefault(role, SideCalls())).add(calls)

    def tool_call_ended(self, *, failed: bool, call_id: str | None = None) -> None:
        """Count a tool call that has ended; ``call_id`` is the one that a model gave the call."""
        self.tool_calls += 1
        if failed:
            self.tool_errors += 1
        if isinstance(call_id, str):
            self.tool_matches.count_run(text(call_id, MAXIMUM_LENGTH))

    def row_here(self) -> ToolRow:
        """Return the row of the tool calls that the current context makes: agents side by side repeat nothing."""
        row = get_value(_ROW)
        return row if isinstance(row, ToolRow) and row.trajectory is self else self.tool_row

    def add_to_row(self, row: ToolRow, tool: str, arguments: int | None, result: int | None) -> None:
        """Add a tool call that has ended to its row; see :class:`ToolRow`."""
        length = row.add(tool, arguments, result)
        if length > self.longest_row[1]:
            self.longest_row = tool, length

    def service_call_ended(self, seconds: float, *, failed: bool) -> None:
        """Count a request to a named service; a failed one like a failed span of the program."""
        self.service_calls += 1
        self.service_seconds += seconds
        if failed:
            self.span_errors += 1

    def wait_for(self, call: UnparsedCall) -> None:
        """Wait for the answer of ``call``: the program may parse it yet, and it counts from then on."""
        self.unparsed[call] = None
        if len(self.unparsed) > MOST_UNPARSED:
            # A copy: other threads end calls meanwhile.
            for first in list(self.unparsed)[:1]:
                first.finish()

    def finish_unparsed(self) -> None:
        """Count what nobody has parsed, from what was read: the trajectory ends."""
        for call in list(self.unparsed):
            call.finish()

    def count_open_calls(self) -> None:
        """Count the model calls that are still open, as far as they have come: the trajectory ends."""
        turns = self.turns
        for call in turns.open_calls():
            call.end_if_dropped()
        turns.number_open()
        for call in turns.open_calls():
            self._count_open(call)

    def _count_open(self, call: OpenModelCall) -> None:
        if self.turns.take(call):
            call.count_so_far()

    @property
    def turn(self) -> int | None:
        """Number of the turn that goes on: that of the model's last answer which has begun. It keeps that number."""
        self.turns.number_open()
        return self.turns.number or None

    def add_reward(self, name: str, value: float, weight: float = 1.0, turn: int | None = None) -> bool:
        """Add a score; one that is not finite counts for nothing. False where the row is made, which lacks it then."""
        weighted = weight * value
        if not math.isfinite(weighted):
            return True
        with adding:
            if self.is_recorded:
                return False
            self.reward = (self.reward or 0.0) + weighted
            if turn is not None and 1 <= turn <= MAXIMUM_TURNS:
                self.turn_rewards[turn] = self.turn_rewards.get(turn, 0.0) + weighted
            self._add_score(name, value, weight)
        return True

    def add_part(self, name: str, value: float) -> None:
        """Add a part of a score, which counts in no sum."""
        if math.isfinite(value):
            with adding:
                self._add_score(name, value, 0.0)

    def _add_score(self, name: str, value: float, weight: float) -> None:
        name = text(str(name), MAXIMUM_LENGTH)
        is_known = name in self.rewards
        if is_known or len(self.rewards) < MAXIMUM_REWARDS:
            if is_known and self.weights.get(name, 1.0) != weight:
                # The sum of scores with several weights has none.
                self.weights[name] = None
            elif weight != 1:
                self.weights[name] = weight
            self.rewards[name] = self.rewards.get(name, 0.0) + value

    def add_metric(self, name: str, value: float) -> bool:
        """Add to a value of the program's own; False where it has no room."""
        name = text(str(name), MAXIMUM_LENGTH)
        with adding:
            if name not in self.metrics and len(self.metrics) >= MAXIMUM_REWARDS:
                return False
            self.metrics[name] = self.metrics.get(name, 0.0) + value
        return True

    @property
    def has_counted(self) -> bool:
        """True where a call, a reward or something that the program says has counted, or will at the end."""
        said = (self.success, self.trained, self.discard_reason, self.reward)
        is_said = any(value is not None for value in said)
        calls = self.model_calls or self.tool_calls or self.side_calls or self.span_errors or self.service_calls
        open_calls = self.unparsed or self.turns.has_open
        return is_said or bool(calls or self.rewards or self.metrics or open_calls)

    @property
    def has_failures(self) -> bool:
        """True where something in it failed."""
        errors = self.tool_errors or self.model_errors or self.span_errors
        return bool(errors) or any(side.errors for side in self.side_calls.values())


#: Shields a context from the trajectory of the contexts around it.
_NO_TRAJECTORY = OpenTrajectory()
_NO_TRAJECTORY.has_ended = True
#: Open ones that have a trace of their own, by its id.
_by_trace: WeakValueDictionary[int, OpenTrajectory] = WeakValueDictionary()
#: Those whose row may not be made yet, the latest of each ``rl.rollout.id``.
_by_id: WeakValueDictionary[str, OpenTrajectory] = WeakValueDictionary()


def current(context: Context | None = None) -> OpenTrajectory | None:
    """Return the open trajectory that ``context`` is part of, by default the current one."""
    trajectory = _last_of(context)
    return None if trajectory is None or trajectory.has_ended else trajectory


def known_as(identifier: str, trajectory: OpenTrajectory) -> None:
    """Let ``trajectory`` be found by its ``rl.rollout.id``."""
    _by_id[identifier] = trajectory


def find(identifier: str) -> OpenTrajectory | None:
    """Return the trajectory with this ``rl.rollout.id`` that this process holds; None for no such one."""
    return _by_id.get(identifier)


def has_outlived(context: Context) -> bool:
    """Return whether ``context`` is that of a trajectory which has ended."""
    trajectory = _last_of(context)
    return trajectory is not None and trajectory.has_ended


def is_elsewhere(context: Context) -> bool:
    """Return whether no trajectory of this process, open or ended, is that of ``context``."""
    trajectory = _last_of(context)
    return trajectory is None or trajectory is _NO_TRAJECTORY


def _last_of(context: Context | None) -> OpenTrajectory | None:
    trajectory = get_value(_KEY, context)
    return trajectory if isinstance(trajectory, OpenTrajectory) else _entered.get()


def enter(trajectory: OpenTrajectory) -> Token[OpenTrajectory | None]:
    """Make all that runs in this context of ``contextvars`` part of it, until that is dropped or :func:`leave`."""
    return _entered.set(trajectory)


def leave(token: Token[OpenTrajectory | None]) -> None:
    """Leave it again, in the context that it was entered in."""
    with suppress(ValueError, RuntimeError):
        _entered.reset(token)


def context_with(trajectory: OpenTrajectory, context: Context | None = None) -> Context:
    """Return a context that is part of ``trajectory``, made of ``context`` or of the current one."""
    return set_value(_KEY, trajectory, get_current() if context is None else context)


def context_of_agent(context: Context) -> Context:
    """Return ``context`` as that of one run of an agent, whose tool calls are a row of their own."""
    return set_value(_ROW, ToolRow(current(context)), context)


def shielded(context: Context) -> Context:
    """Return ``context`` as part of no trajectory, whatever is around it."""
    return context_with(_NO_TRAJECTORY, context)


def root_context(trajectory: OpenTrajectory, context: Context) -> Context:
    """Like :func:`context_with`, where ``trajectory`` is the only one of the trace in ``context``."""
    trace_id = get_current_span(context).get_span_context().trace_id
    if trace_id:
        _by_trace[trace_id] = trajectory
    return context_with(trajectory, context)


def context_of_trace(context: Context) -> Context:
    """Return ``context`` as part of the trajectory of its trace; of none, where no trajectory here has that trace."""
    trace_id = get_current_span(context).get_span_context().trace_id
    return context_with(_by_trace.get(trace_id, _NO_TRAJECTORY), context)


def _start_anew() -> None:
    """In a forked child: a thread of the parent may hold the other lock, and the parent records what it has begun."""
    global adding
    adding = threading.RLock()
    _by_id.clear()


# Before the callbacks of others, which take the lock; and where nothing runs these.
lifecycle.after_fork_in_child(_start_anew)
os.register_at_fork(after_in_child=_start_anew)
