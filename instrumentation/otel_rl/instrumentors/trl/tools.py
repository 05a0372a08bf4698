"""Calls of the functions given as ``tools=[...]``.

One batch of completions may call tools thousands of times, so a call is only noted while it runs. After the batch all
durations go into the histogram; the slowest calls and the first failed ones become spans with the times they had, and
with arguments and result where content capture is on.
"""

from __future__ import annotations

import heapq
import inspect
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import wrapt

from otel_rl.core import settings
from otel_rl.instrumentors.trl.profiling import scope
from otel_rl.semconv import attributes, metrics, spans
from otel_rl.semconv.attributes import ErrorTypeValues, GenAiOperationNameValues
from otel_rl.telemetry import drops, guard
from otel_rl.telemetry.content_capture import capture_content, content_as_json
from otel_rl.telemetry.tool_matches import FailedCall
from otel_rl.tools import attempts, calls, open_tools, outcomes
from otel_rl.tools.open_tools import OpenTool
from otel_rl.tools.sizes import plain_size

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Takes start (``time.perf_counter_ns``), exception, arguments and result of a call.
    Note = Callable[[int, BaseException | None, Any, Any], None]

#: Attributes of trainers that hold tools by name, one dictionary or one per sample, in the order of being asked.
_DICTIONARIES = ("_tool_dict", "_sync_tool_dict", "_sync_tool_dicts", "_async_tool_dict", "_async_tool_dicts")

_RUNNING, _NOTED = guard("trl.running_tool"), guard("trl.tool")
_OPERATION = GenAiOperationNameValues.EXECUTE_TOOL


class FinishedToolCall(NamedTuple):
    """One finished call; ordered by ``duration`` (ns). ``ended`` in ns since the epoch, sizes -1 where unknown."""

    duration: int
    ended: int
    name: str
    error: str
    outcome: str = outcomes.OK
    retry: int = 0
    arguments_size: int = -1
    result_size: int = -1


class _Content:
    """Arguments and results, as JSON, of the calls that will be shown: the slowest and the first failed ones."""

    def __init__(self) -> None:
        self._captures = capture_content()
        self._keep = settings.current().slowest
        #: A heap, and the first failed calls.
        self._slowest: list[FinishedToolCall] = []
        self._failed: list[FinishedToolCall] = []
        self._of: dict[FinishedToolCall, dict[str, str | None]] = {}

    def add(self, call: FinishedToolCall, arguments: Any, result: Any) -> None:
        """Encode what ``call`` was given and returned, unless it is too quick to be shown."""
        if not self._captures or not self._keep:
            return
        if call.error and len(self._failed) < self._keep:
            self._failed.append(call)
        heapq.heappush(self._slowest, call)
        quickest = heapq.heappop(self._slowest) if len(self._slowest) > self._keep else None
        if quickest is not None and quickest not in self._failed:
            self._of.pop(quickest, None)
            if quickest is call:
                return
        self._of[call] = {
            attributes.GEN_AI_TOOL_CALL_ARGUMENTS: content_as_json(arguments),
            attributes.GEN_AI_TOOL_CALL_RESULT: None if call.error else content_as_json(result),
        }

    def of(self, call: FinishedToolCall) -> dict[str, str | None]:
        """Attributes of the span of ``call``."""
        return self._of.get(call, {})


class ToolCalls:
    """Notes the calls of one batch."""

    def __init__(self) -> None:
        self._calls: list[FinishedToolCall] = []
        self._unknown: list[str] = []
        self._content = _Content()
        #: The call of a sample that failed last, by the sample's place.
        self._last_failed: dict[int, FailedCall] = {}
        #: Failed calls and those of unknown tools, by the place of the sample whose tools they are.
        self.failures: dict[int, int] = {}

    def watch(self, tools: dict[str, Any], sample: int | None = None) -> dict[str, Any]:
        """Return a copy of ``tools`` whose functions note their calls; of all samples, or of one."""
        return {name: _WatchedTool(tool, name, self._noter(name, sample)) for name, tool in tools.items()}

    def watch_last(self, tools: dict[str, Any], sample: int | None = None) -> dict[str, Any]:
        """Like :meth:`watch`, for the dictionary that is asked last: a name it lacks is unknown."""
        return _LastTools(self.watch(tools, sample), lambda name: self._note_unknown(name, sample))

    def _note_unknown(self, name: str, sample: int | None) -> None:
        self._unknown.append(name)
        self._note_failure(sample)

    def _note_failure(self, sample: int | None) -> None:
        if sample is not None:
            self.failures[sample] = self.failures.get(sample, 0) + 1

    def _noter(self, name: str, sample: int | None) -> Note:
        def note(started: int, error: BaseException | None, arguments: Any, result: Any) -> None:
            duration = time.perf_counter_ns() - started
            with _NOTED:
                failure = outcomes.returned(result) if error is None else outcomes.raised(error)
                if failure is not None:
                    self._note_failure(sample)
                sizes = plain_size(arguments), None if error is not None else plain_size(result)
                mark = attempts.mark_of(arguments, sizes[0])
                call = FinishedToolCall(
                    duration,
                    time.time_ns(),
                    name,
                    *(failure or ("", outcomes.of_result(result))),
                    self._retry(sample, name, mark, failed=failure is not None),
                    *(-1 if size is None else size for size in sizes),
                )
                self._calls.append(call)
                self._content.add(call, arguments, result)

        return note

    def _retry(self, sample: int | None, name: str, mark: int | None, *, failed: bool) -> int:
        """Return the number of the repetition; samples that share their tools cannot be told apart."""
        if sample is None or (not failed and sample not in self._last_failed):
            return 0
        retry = attempts.number_of(self._last_failed.get(sample), name, mark)
        if failed and mark is not None:
            self._last_failed[sample] = FailedCall(name, mark, retry)
        elif failed or retry:
            self._last_failed.pop(sample, None)
        return retry

    def finish(self) -> None:
        """Record the batch; spans become children of the current one."""
        with guard("trl.tools"):
            keep = settings.current().slowest
            failed = [call for call in self._calls if call.error]
            shown = dict.fromkeys([*failed[:keep], *heapq.nlargest(keep, self._calls)])
            drops.count(attributes.RlTelemetrySignalValues.TRACES, "failed_tool_call", max(len(failed) - keep, 0))
            for call in self._calls:
                _record_duration(call)
            for call in shown:
                _record_span(call, self._content.of(call))
            drops.count(attributes.RlTelemetrySignalValues.LOGS, "unknown_tool", max(len(self._unknown) - keep, 0))
            for name in self._unknown[:keep]:
                calls.record_unknown(scope, name)
            for _ in self._unknown[keep:]:
                _record_duration(
                    FinishedToolCall(0, 0, ErrorTypeValues.OTHER, outcomes.UNKNOWN_TOOL, outcomes.UNKNOWN_TOOL)
                )


class _WatchedTool(wrapt.ObjectProxy):  # type: ignore[type-arg]  # generic for type checkers only
    """Stands for a tool: same name, signature and kind (``iscoroutinefunction``), and pickled as the tool itself."""

    def __init__(self, tool: Any, name: str, note: Note) -> None:
        super().__init__(tool)
        self._self_name = name
        self._self_note = note

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if inspect.iscoroutinefunction(self.__wrapped__):
            return _watched_coroutine(self.__wrapped__, self._self_note, self._self_name, args, kwargs)
        running = _Running(self._self_name)
        started = time.perf_counter_ns()
        try:
            result = self.__wrapped__(*args, **kwargs)
        except BaseException as error:
            running.end(failed=True)
            self._self_note(started, error, kwargs or args, None)
            raise
        running.end()
        self._self_note(started, None, kwargs or args, result)
        return result

    def __reduce__(self) -> Any:
        return _itself, (self.__wrapped__,)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _itself, (self.__wrapped__,)


async def _watched_coroutine(tool: Any, note: Note, name: str, args: Any, kwargs: Any) -> Any:
    running = _Running(name)
    started = time.perf_counter_ns()
    try:
        result = await tool(*args, **kwargs)
    except BaseException as error:
        running.end(failed=True)
        note(started, error, kwargs or args, None)
        raise
    running.end()
    note(started, None, kwargs or args, result)
    return result


class _Running:
    """A tool while it runs: a call of a server's tool inside of it is no second tool."""

    __slots__ = ("_token", "_tool")

    def __init__(self, name: str) -> None:
        with _RUNNING:
            self._tool = OpenTool(name, scope.name)
            self._token = open_tools.enter(self._tool)

    def end(self, *, failed: bool = False) -> None:
        with _RUNNING:
            open_tools.leave(self._tool, self._token, failed=failed)


class _LastTools(dict[str, Any]):
    """Notes the names that are asked for and not there."""

    def __init__(self, tools: dict[str, Any], note_unknown: Callable[[str], None]) -> None:
        super().__init__(tools)
        self._note_unknown = note_unknown

    def __contains__(self, name: object) -> bool:
        is_known = super().__contains__(name)
        if not is_known:
            self._note_unknown(str(name))
        return is_known

    def __missing__(self, name: object) -> Any:
        # Versions of TRL that index without asking.
        self._note_unknown(str(name))
        raise KeyError(name)


def watched(trainer: Any) -> Watching | None:
    """Context in which the tools of ``trainer`` are watched; None when there is nothing to watch."""
    names = [name for name in _DICTIONARIES if name in vars(trainer)]
    return Watching(trainer, names) if scope.enabled and names else None


class Watching:
    """Exchanges the trainer's tool dictionaries for watched copies, and puts the originals back."""

    def __init__(self, trainer: Any, names: list[str]) -> None:
        self._trainer = trainer
        self._names = names
        self._calls = ToolCalls()
        self._originals: dict[str, Any] = {}
        #: Failed calls by the place of the sample; None where all samples share their tools.
        self.failures: dict[int, int] | None = None

    def __enter__(self) -> None:
        with guard("trl.tools"):
            watch = self._calls.watch
            replacements: dict[str, Any] = {}
            for name in self._names:
                if name == self._names[-1]:
                    watch = self._calls.watch_last
                original = getattr(self._trainer, name)
                if isinstance(original, dict):
                    replacements[name] = watch(original)
                else:
                    replacements[name] = [watch(tools, place) for place, tools in enumerate(original)]
                    self.failures = self._calls.failures
            self._originals = {name: getattr(self._trainer, name) for name in self._names}
            vars(self._trainer).update(replacements)

    def __exit__(self, *_: object) -> None:
        vars(self._trainer).update(self._originals)
        self._calls.finish()


def _itself(tool: Any) -> Any:
    return tool


def _record_duration(call: FinishedToolCall) -> None:
    scope.record(
        metrics.GEN_AI_EXECUTE_TOOL_DURATION,
        call.duration * 1e-9,
        {
            attributes.GEN_AI_TOOL_NAME: call.name,
            attributes.ERROR_TYPE: call.error or None,
            attributes.RL_TOOL_OUTCOME: call.outcome,
        },
    )


def _known(size: int) -> int | None:
    return None if size < 0 else size


def _record_span(call: FinishedToolCall, content: dict[str, str | None]) -> None:
    span = scope.start_span(
        spans.GEN_AI_EXECUTE_TOOL,
        f"{_OPERATION} {call.name}",
        attributes={
            attributes.GEN_AI_OPERATION_NAME: _OPERATION,
            attributes.GEN_AI_TOOL_NAME: call.name,
            attributes.GEN_AI_TOOL_TYPE: "function",
            attributes.RL_TOOL_OUTCOME: call.outcome,
            attributes.RL_TOOL_RETRY: call.retry or None,
            attributes.RL_TOOL_ARGUMENTS_SIZE: _known(call.arguments_size),
            attributes.RL_TOOL_RESULT_SIZE: _known(call.result_size),
            **content,
        },
        start_time=call.ended - call.duration,
    )
    scope.end_span(span, call.error or None, call.ended)
