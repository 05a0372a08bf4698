"""The workers of agent loops: one trajectory per call, its model calls, tools and score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import otel_rl
from otel_rl.telemetry.scope import enabled
from otel_rl.training import caller_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextvars import Token

#: What verl says of an answer that its server did not cut short by an abort.
_COMPLETED = "completed"


class _OpenOperation:
    """An operation of the producer API that the end of a call ends."""

    __slots__ = ("evaluation", "operation")

    def __init__(self, operation: Any, evaluation: Token[bool] | None = None) -> None:
        self.operation = operation
        self.evaluation = evaluation
        operation.__enter__()


def ended(running: _OpenOperation, _: Any, error: BaseException | None) -> None:
    """End the operation."""
    running.operation.__exit__(None if error is None else type(error), error, None)
    if running.evaluation is not None:
        caller_steps.made_in_evaluation.reset(running.evaluation)


def name_of(uid: object, session: object) -> str:
    """Return the id of a rollout: of the prompt, and which of its samples it is."""
    return f"{uid}_{session}"


def run_begins(_: Any, __: Any, trajectory: Mapping[str, Any], *___: Any, **sample: Any) -> _OpenOperation | None:
    """Begin a rollout."""
    if not enabled():
        return None
    uid, session = sample.get("uid"), sample.get("session_id")
    evaluation = caller_steps.made_in_evaluation.set(True) if trajectory.get("validate") else None
    rollout = otel_rl.rollout(
        None if uid is None else name_of(uid, trajectory.get("rollout_n") if session is None else session),
        sample_id=_plain(trajectory.get("sample_index")),
        group_id=None if uid is None else str(uid),
        iteration=_plain(trajectory.get("step")),
    )
    return _OpenOperation(rollout, evaluation)


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python's."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value


# -- scores ----------------------------------------------------------------------------------------------------------


def score_begins(_: Any, outputs: Sequence[Any], *__: Any, **___: Any) -> _OpenOperation | None:
    """Begin to score, unless the agent loop has done so itself, or the trainer will."""
    if not enabled() or not outputs or outputs[-1].reward_score is not None:
        return None
    return _OpenOperation(otel_rl.phase("reward"))


def scored(_: Any, __: Any, outputs: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *___: Any) -> None:
    """Record the score of a trajectory, under the name of its data."""
    final = outputs[-1] if outputs else None
    score = getattr(final, "reward_score", None)
    if final is None or score is None or not enabled():
        return
    further = final.extra_fields.get("reward_extra_info") or {}
    parts = {str(key): float(value) for key, value in further.items() if isinstance(value, int | float)}
    accuracy = further.get("acc")
    otel_rl.reward(
        str((kwargs or {}).get("data_source") or "reward"),
        score,
        parts=parts or None,
        success=bool(accuracy) if accuracy in (0, 1) else None,
    )


# -- calls -----------------------------------------------------------------------------------------------------------


def tool_begins(_: Any, tool_call: Any, *__: Any, **___: Any) -> _OpenOperation | None:
    """Begin a call of a tool."""
    return _OpenOperation(otel_rl.tool(str(tool_call.name))) if enabled() else None


class _ModelCall(_OpenOperation):
    __slots__ = ("limit", "prompt_tokens")

    def __init__(self, operation: Any, prompt_tokens: int, limit: Any) -> None:
        super().__init__(operation)
        self.prompt_tokens = prompt_tokens
        #: Most tokens of a response.
        self.limit = limit


def generate_begins(
    client: Any, *_: Any, prompt_ids: Sequence[int] = (), sampling_params: Mapping[str, Any] | None = None, **__: Any
) -> _ModelCall | None:
    """Begin a call of the policy."""
    if not enabled():
        return None
    config = client.config.actor_rollout_ref
    given = sampling_params or {}
    parameters = {name: given[name] for name in ("temperature", "top_p", "max_tokens") if name in given}
    model = str(config.model.path).rstrip("/").rpartition("/")[2]
    call = otel_rl.llm(model, operation="text_completion", provider=str(config.rollout.name), **parameters)
    return _ModelCall(call, len(prompt_ids), getattr(config.rollout, "response_length", None))


def generate_ended(call: _ModelCall, output: Any, error: BaseException | None) -> None:
    """End the call, with what its answer has."""
    token_ids = getattr(output, "token_ids", None)
    if token_ids is not None:
        _describe(call, output, len(token_ids))
    ended(call, output, error)


def _describe(call: _ModelCall, output: Any, tokens: int) -> None:
    further = output.extra_fields
    call.operation.usage(
        input_tokens=call.prompt_tokens, output_tokens=tokens, cached_tokens=further.get("num_cached_tokens")
    )
    reason = output.stop_reason
    if reason == _COMPLETED and call.limit is not None:
        reason = "length" if tokens >= call.limit else "stop"
    if reason is not None:
        call.operation.finish(reason)
    version = further.get("global_steps")
    if version is not None:
        # As servers of OpenAI's protocol say it.
        call.operation.answer({"usage": None, "metadata": {"weight_version": str(version)}})
