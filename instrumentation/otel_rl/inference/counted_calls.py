"""How a model call counts in its trajectory, when it ends or as far as it has come, and in its step."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from otel_rl.core.guard import guard
from otel_rl.inference import tool_round_trips
from otel_rl.inference.engine_requests import was_aborted
from otel_rl.telemetry import side_calls
from otel_rl.telemetry.model_turns import OpenModelCall

if TYPE_CHECKING:
    from otel_rl.inference.answers import Answer
    from otel_rl.telemetry.judging import Judging
    from otel_rl.telemetry.open_trajectory import OpenTrajectory

#: Without it there is no step.
_STEPS = "otel_rl.training.steps"
_SUMMARY = guard("inference.engine_summary")


class CountedCall(OpenModelCall, Protocol):
    """A model call with its answer as far as it has come."""

    answer: Answer
    #: Whose it is, see ``call_roles``.
    role: str | None
    #: Tools that it asks for and the trajectory knows.
    asked_tools: int

    @property
    def engine(self) -> tuple[str, int | None, str]:
        """Address and port of the server, and the model: what its versions of the weights belong to."""

    @property
    def last_read(self) -> float:
        """When the program got the last of it, ``time.perf_counter()`` in s."""


def count(call: CountedCall, trajectory: OpenTrajectory, *, is_turn: bool, failed: bool) -> None:
    """Count ``call``, which has ended, unless its trajectory has ended before it; an embedding only where it failed."""
    if is_turn:
        if not trajectory.turns.take(call):
            return
    elif trajectory.has_ended or not failed:
        return
    failed = failed or was_aborted(call.answer.finish_reasons)
    if failed:
        trajectory.turns.remove(call)
    elif is_turn and call.role not in side_calls.COLUMNS:
        trajectory.turns.give(call)
    _add(call, trajectory, call.answer, failed=failed)


def count_judge(call: CountedCall, reward: Judging, *, is_turn: bool, failed: bool) -> None:
    """Count a judge's ``call``, which has ended, for a reward outside of all trajectories, as :func:`count` does."""
    if is_turn or failed:
        seconds = call.last_read - call.started
        failed = failed or was_aborted(call.answer.finish_reasons)
        reward.call_ended(call.answer.tokens, seconds, failed=failed)


def count_so_far(call: CountedCall, trajectory: OpenTrajectory) -> None:
    """Count ``call``, which is open at the end of its trajectory, as far as it has come; more of it may come."""
    _add(call, trajectory, call.answer.so_far(), failed=False)


def _add(call: CountedCall, trajectory: OpenTrajectory, answer: Answer, *, failed: bool) -> None:
    if call.role in side_calls.COLUMNS:
        trajectory.side_call_ended(call.role, answer.tokens, failed=failed)
        return
    trajectory.model_call_ended(answer.tokens, answer.finish_reasons, failed=failed, turn=call.turn)
    if answer.weight_version is not None:
        from otel_rl.training import engine_versions  # noqa: PLC0415 - few servers say versions

        engine = engine_versions.Engine(*call.engine)
        made = answer.tokens_by_version or {answer.weight_version: answer.exact_output_tokens() or 0}
        for version, tokens in made.items():
            engine_versions.answered(trajectory, engine, version, tokens)
    note_asked_tools(call, trajectory)


def note_asked_tools(call: CountedCall, trajectory: OpenTrajectory) -> None:
    """Let the trajectory know the tools that the answer asks for and that it does not know yet."""
    tools = call.answer.tool_calls
    if tools and len(tools) > call.asked_tools:
        further = dict(islice(tools.items(), call.asked_tools, None))
        call.asked_tools = len(tools)
        tool_round_trips.asked(trajectory, further, call.last_read)


def add_to_step(answer: Answer, error: BaseException | None, left: str | None, *, is_private: bool) -> None:
    """Count an answer in the open step; ``left`` says how the program left a stream before its end."""
    if _STEPS in sys.modules:
        with _SUMMARY:
            from otel_rl.inference.engine_answers import add  # noqa: PLC0415 - for programs with steps

            add(answer, error, left, is_private=is_private)
