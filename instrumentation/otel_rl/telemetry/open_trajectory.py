"""What the calls of one trajectory add up to, while it is open.

The context holds it. So model calls, tool calls and rewards find it in every thread, task and generator that goes on
with the trajectory, and nothing else does: a trajectory that never ends is freed with its context. A forked child adds
to a copy of its own, which it never records. A task that outlives its trajectory is part of none from the end on.

Nothing here locks. ``x += 1`` on a slot runs in one piece in CPython 3.10 and later, where the interpreter lock is only
given up at calls and backward jumps. Without that lock two threads that end a call at once could count as one.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from opentelemetry.context import create_key, get_current, get_value, set_value
from opentelemetry.trace import get_current_span

from otel_rl.semconv import attributes
from otel_rl.telemetry import progress
from otel_rl.telemetry.attribute_values import text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context

_KEY = create_key("otel_rl.trajectory")
#: The same, where other instrumentors make contexts of theirs current that do not have it.
_entered: ContextVar[OpenTrajectory | None] = ContextVar("otel_rl_trajectory", default=None)
#: Most names of rewards of one trajectory; scores under further ones count in the sum only. So many metrics, too.
MAXIMUM_REWARDS = 32
#: Most turns of one trajectory whose rewards are told apart; rewards of further ones count in the sum only.
MAXIMUM_TURNS = 512
#: Most model calls of one trajectory that wait for the program to parse their answers; then the first is counted.
MOST_UNPARSED = 64
#: Most ids of calls of tools that are remembered.
MOST_TOOL_IDS = 128
#: Longest name, id or reason, in characters.
MAXIMUM_LENGTH = 256
#: Longest version that is read as a number, in digits.
_DIGITS = 18


class UnparsedCall(Protocol):
    """A model call whose answer has been read."""

    def finish(self) -> None:
        """End it with what the answer says; it counts in its trajectory."""


class FailedCall(NamedTuple):
    """A call of a tool that failed: its name, a hash of its arguments, and how often it had been repeated by then."""

    name: str
    mark: int
    retry: int


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


class OpenTrajectory:
    """Counters of one trajectory; a token count is None as long as no answer has told one."""

    __slots__ = (
        "__weakref__",
        "_highest_version",
        "_lowest_version",
        "advantage",
        "asked_tools",
        "discard_reason",
        "estimator",
        "event_loop",
        "failed_tool",
        "has_ended",
        "identifier",
        "input_tokens",
        "is_recorded",
        "metrics",
        "model_calls",
        "model_errors",
        "output_tokens",
        "reward",
        "rewards",
        "span_errors",
        "stop_reason",
        "success",
        "tool_calls",
        "tool_errors",
        "tool_ids",
        "tool_matches",
        "tool_results",
        "tool_retries",
        "trained",
        "turn_rewards",
        "unparsed",
        "weights",
    )

    def __init__(self, identifier: str | None = None) -> None:
        #: Its ``rl.rollout.id``, where the baggage does not have it.
        self.identifier = identifier
        self.model_calls = self.model_errors = self.tool_calls = self.tool_errors = self.span_errors = 0
        #: Tool calls that repeat the failed one before them, and that one.
        self.tool_retries = 0
        self.failed_tool: FailedCall | None = None
        #: Calls of tools that a model has asked for and that wait for their results, by id; how many of the calls are
        #: counted by their results alone, and how many have the id of one that a model has asked for.
        self.asked_tools: dict[str, AskedTool] = {}
        self.tool_results = self.tool_matches = 0
        #: Counted calls by their ids, which no answer has been seen to ask for yet: it may be parsed later.
        self.tool_ids: dict[str, int] = {}
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.stop_reason: str | None = None
        self._lowest_version: int | None = None
        self._highest_version: int | None = None
        #: Weighted sum of all scores, the sum per name as the functions gave them, and weights that are not 1.
        #: None where scores of one name had several.
        self.reward: float | None = None
        self.rewards: dict[str, float] = {}
        self.weights: dict[str, float | None] = {}
        #: Weighted sum of the scores of each turn, from turn 1 on.
        self.turn_rewards: dict[int, float] = {}
        #: The program's own values, by name.
        self.metrics: dict[str, float] = {}
        #: What the program says of its task.
        self.success: bool | None = None
        #: Set where the program trains on the trajectory, with its advantage and the formula behind that.
        self.trained: bool | None = None
        self.advantage: float | None = None
        self.estimator: str | None = None
        #: Set where the program does not use the trajectory.
        self.discard_reason: str | None = None
        #: Model calls whose answers have been read, and parsed by nobody yet.
        self.unparsed: dict[UnparsedCall, None] = {}
        #: Its record is made: nothing counts in it any more.
        self.has_ended = False
        #: What is said of it from now on comes too late.
        self.is_recorded = False
        self.event_loop = 0
        progress.began_in_event_loop(progress.ROLLOUTS, self)

    def model_call_ended(
        self,
        tokens: tuple[int | None, int | None],
        reasons: Sequence[str] | None,
        version: str | None,
        *,
        failed: bool,
    ) -> None:
        """A model has answered, or not; ``tokens`` are those of the input and the output, where the server told."""
        self.model_calls += 1
        if failed:
            self.model_errors += 1
        given, made = tokens
        if given is not None:
            self.input_tokens = (self.input_tokens or 0) + given
        if made is not None:
            self.output_tokens = (self.output_tokens or 0) + made
        if reasons:
            self.stop_reason = reasons[-1]
        if version is not None and version.isdecimal() and len(version) <= _DIGITS:
            number = int(version)
            lowest, highest = self._lowest_version, self._highest_version
            self._lowest_version = number if lowest is None else min(lowest, number)
            self._highest_version = number if highest is None else max(highest, number)

    def tool_call_ended(self, *, failed: bool, call_id: str | None = None) -> None:
        """A tool has returned, or failed; ``call_id`` is the one that a model gave the call."""
        self.tool_calls += 1
        if failed:
            self.tool_errors += 1
        if isinstance(call_id, str):
            self._tool_ran(text(call_id, MAXIMUM_LENGTH))

    def _tool_ran(self, identifier: str) -> None:
        asked = self.asked_tools.get(identifier)
        if asked is not None:
            asked.has_run = True
            self.tool_matches += 1
        elif identifier in self.tool_ids or len(self.tool_ids) < MOST_TOOL_IDS:
            self.tool_ids[identifier] = self.tool_ids.get(identifier, 0) + 1

    def asked_for_tool(self, identifier: str, name: str, group: Any) -> None:
        """An answer has asked for a call of a tool, which may have run by now: the program has read it before us."""
        runs = self.tool_ids.pop(identifier, 0)
        self.tool_matches += runs
        self.asked_tools[identifier] = AskedTool(name, group, has_run=runs > 0)

    @property
    def unmatched_tool_calls(self) -> int:
        """Counted calls of which nobody knows which call of a model they are."""
        return self.tool_calls - self.tool_results - self.tool_matches

    def wait_for(self, call: UnparsedCall) -> None:
        """The answer of ``call`` may be parsed by the program yet, and counts from then on."""
        self.unparsed[call] = None
        if len(self.unparsed) > MOST_UNPARSED:
            # A copy: other threads end calls meanwhile.
            for first in list(self.unparsed)[:1]:
                first.finish()

    def finish_unparsed(self) -> None:
        """Count what nobody has parsed, from what was read: the trajectory ends."""
        for call in list(self.unparsed):
            call.finish()

    @property
    def turn(self) -> int | None:
        """Number of the turn that goes on: that of the model's last answer."""
        return self.model_calls - self.model_errors or None

    def add_reward(self, name: str, value: float, weight: float = 1.0, turn: int | None = None) -> None:
        """Add a score; one that is not finite counts for nothing."""
        weighted = weight * value
        if not math.isfinite(weighted):
            return
        self.reward = (self.reward or 0.0) + weighted
        if turn is not None and 1 <= turn <= MAXIMUM_TURNS:
            self.turn_rewards[turn] = self.turn_rewards.get(turn, 0.0) + weighted
        self._add_score(name, value, weight)

    def add_part(self, name: str, value: float) -> None:
        """Add a part of a score, which counts in no sum."""
        if math.isfinite(value):
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
        if name not in self.metrics and len(self.metrics) >= MAXIMUM_REWARDS:
            return False
        self.metrics[name] = self.metrics.get(name, 0.0) + value
        return True

    def rewards_of_turns(self) -> tuple[list[float | None], list[float]]:
        """The reward of each turn up to the last one that has a reward, and the sums up to each; empty for none."""
        last = max(self.turn_rewards, default=0)
        found = [self.turn_rewards.get(turn) for turn in range(1, last + 1)]
        return found, list(accumulate(reward or 0.0 for reward in found))

    def _is_suspect(self, *, failed: bool) -> bool:
        """The reward is zero and something failed: the score may be that of the failure and not of the policy."""
        return self.reward == 0 and bool(failed or self.tool_errors or self.model_errors or self.span_errors)

    def totals(self, *, failed: bool = False) -> dict[str, Any]:
        """The totals as attributes; counters that nothing was seen of are left out.

        ``failed`` where the trajectory itself did.
        """
        found: dict[str, Any] = {}
        if self.model_calls:
            found[attributes.RL_ROLLOUT_TURNS] = self.model_calls - self.model_errors
            found[attributes.RL_ROLLOUT_MODEL_CALLS] = self.model_calls
            found[attributes.RL_ROLLOUT_MODEL_ERRORS] = self.model_errors
        if self.model_calls or self.tool_calls:
            found[attributes.RL_ROLLOUT_TOOL_CALLS] = self.tool_calls
            found[attributes.RL_ROLLOUT_TOOL_ERRORS] = self.tool_errors
        known = {
            attributes.RL_ROLLOUT_INPUT_TOKENS: self.input_tokens,
            attributes.RL_ROLLOUT_OUTPUT_TOKENS: self.output_tokens,
            attributes.RL_ROLLOUT_STOP_REASON: self.stop_reason and text(self.stop_reason, MAXIMUM_LENGTH),
            attributes.RL_ROLLOUT_POLICY_VERSION_MIN: self._lowest_version,
            attributes.RL_ROLLOUT_POLICY_VERSION_MAX: self._highest_version,
        }
        found |= {key: value for key, value in known.items() if value is not None}
        if self.tool_retries:
            found[attributes.RL_ROLLOUT_TOOL_RETRIES] = self.tool_retries
        if self.span_errors:
            found[attributes.RL_ROLLOUT_SPAN_ERRORS] = self.span_errors
        if self._is_suspect(failed=failed):
            found[attributes.RL_ROLLOUT_SUSPECT] = True
        if self.success is not None:
            found[attributes.RL_ROLLOUT_SUCCESS] = self.success
        return found


#: Stands for none, where a context must not have that of the contexts around it.
_NONE = OpenTrajectory()
_NONE.has_ended = True
#: Open ones that have a trace of their own, by its id.
_by_trace: WeakValueDictionary[int, OpenTrajectory] = WeakValueDictionary()


def of(context: Context | None = None) -> OpenTrajectory | None:
    """The open trajectory that ``context`` is part of, by default the current one."""
    found = _last_of(context)
    return None if found is None or found.has_ended else found


def has_outlived(context: Context) -> bool:
    """True where ``context`` is that of a trajectory which has ended."""
    found = _last_of(context)
    return found is not None and found.has_ended


def _last_of(context: Context | None) -> OpenTrajectory | None:
    found = get_value(_KEY, context)
    return found if isinstance(found, OpenTrajectory) else _entered.get()


def enter(trajectory: OpenTrajectory) -> None:
    """All that runs in this context of ``contextvars`` is part of it; for a context that is dropped afterwards."""
    _entered.set(trajectory)


def context_with(trajectory: OpenTrajectory, context: Context | None = None) -> Context:
    """A context that is part of ``trajectory``, made of ``context`` or of the current one."""
    return set_value(_KEY, trajectory, get_current() if context is None else context)


def root_context(trajectory: OpenTrajectory, context: Context) -> Context:
    """Like :func:`context_with`, where ``trajectory`` is the only one of the trace in ``context``."""
    trace_id = get_current_span(context).get_span_context().trace_id
    if trace_id:
        _by_trace[trace_id] = trajectory
    return context_with(trajectory, context)


def context_of_trace(context: Context) -> Context:
    """``context``, part of the trajectory whose trace it is in; of none, where none of this process has that trace."""
    trace_id = get_current_span(context).get_span_context().trace_id
    return context_with(_by_trace.get(trace_id, _NONE), context)
