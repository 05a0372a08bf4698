"""Tools that an answer asks for, and their results in a later request of the same trajectory.

Where a tool runs in code without an instrumentor, nothing else shows it. Its duration is not known: the time between
answer and request is an upper bound.
"""

from __future__ import annotations

import json
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from otel_rl.inference.fields import fields_of, items_of, text_of
from otel_rl.semconv import attributes, events
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.open_trajectory import MAXIMUM_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_rl.telemetry.open_trajectory import OpenTrajectory
    from otel_rl.telemetry.scope import Scope
    from otel_rl.telemetry.tool_matches import AskedTool

#: Most calls of one answer.
MOST_ASKED = 32
#: Most calls of one trajectory that wait for their results; then the first is forgotten.
MOST_WAITING = 128
#: Messages or items at the end of a request that are looked at.
_MOST_MESSAGES = 256
#: Arguments of a call with more pieces or characters are not looked at.
_MOST_PIECES, _LONGEST_ARGUMENTS = 4_096, 65_536


class AskedArguments:
    """The arguments of the calls that an answer asks for, as they come: whether they are JSON."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        #: By choice and place: the tool's name, and the pieces of its arguments; None for too many.
        self._calls: dict[tuple[int, int], tuple[str, list[str] | None]] = {}

    def add(self, choice: int, calls: Any) -> None:
        """Add calls of a message of a chat, a piece of one, or items of a response."""
        for place, call in enumerate(islice(items_of(calls), MOST_ASKED)):
            fields = fields_of(call)
            index = fields.get("index")
            key = choice, index if isinstance(index, int) else place
            of_function = fields_of(fields.get("function")) or (fields if fields.get("type") == "function_call" else {})
            piece, (name, pieces) = of_function.get("arguments"), self._calls.get(key, ("", []))
            if isinstance(piece, str) and pieces is not None and (key in self._calls or len(self._calls) < MOST_ASKED):
                pieces.append(piece)
                kept = pieces if len(pieces) < _MOST_PIECES and len(piece) < _LONGEST_ARGUMENTS else None
                self._calls[key] = text_of(of_function.get("name")) or name, kept

    def invalid(self) -> tuple[str, ...]:
        """Return the tools of the calls whose arguments are no JSON; many servers send none as an empty text."""
        return tuple(text(name, MAXIMUM_LENGTH) for name, pieces in self._calls.values() if not _is_json(pieces))


def _is_json(pieces: list[str] | None) -> bool:
    arguments = "".join(pieces or ())
    if not arguments.strip() or len(arguments) > _LONGEST_ARGUMENTS:
        return True
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return True


class _AnswerCalls:
    """The calls that one answer asks for.

    Attributes:
        moment: ``time.perf_counter()`` of the answer, in s.
        seen: calls without an id of a model that were counted by then, and of those after it the ones that stand for
            ours.
    """

    __slots__ = ("moment", "seen")

    def __init__(self, moment: float) -> None:
        self.moment = moment
        self.seen = 0


def calls_in(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Id and name of the calls in a message of a chat, or in a piece of one."""
    for call in islice(items_of(message.get("tool_calls")), MOST_ASKED):
        fields = fields_of(call)
        identifier, function = text_of(fields.get("id")), fields.get("function") or fields.get("custom")
        if identifier:
            # Of the pieces of a stream only the first has the id, as a rule.
            yield identifier, text_of(fields_of(function).get("name")) or ""


def calls_of_response(output: Any) -> Iterator[tuple[str, str]]:
    """Yield the calls in the output of a response, likewise."""
    for item in islice(items_of(output), _MOST_MESSAGES):
        fields = fields_of(item)
        identifier = text_of(fields.get("call_id"))
        if identifier and is_call(fields):
            yield identifier, text_of(fields.get("name")) or ""


def is_call(item: Any) -> bool:
    """Return whether an item of a response is a call of a tool of the program."""
    return fields_of(item).get("type") in ("function_call", "custom_tool_call")


def add(known: dict[str, str], calls: Iterator[tuple[str, str]]) -> None:
    """Add calls to those of an answer, as far as there is room."""
    for identifier, name in calls:
        key = text(identifier, MAXIMUM_LENGTH)
        # Some servers send the id with every piece, and the name with the first.
        if not known.get(key) and (key in known or len(known) < MOST_ASKED):
            known[key] = text(name, MAXIMUM_LENGTH)


def asked(trajectory: OpenTrajectory, calls: Mapping[str, str], moment: float | None = None) -> None:
    """Note that an answer has asked for ``calls``, names by id, at ``moment`` (``time.perf_counter()``) or now."""
    group, matches = _AnswerCalls(time.perf_counter() if moment is None else moment), trajectory.tool_matches
    for identifier, name in calls.items():
        matches.ask(identifier, name, group)
    group.seen = matches.unmatched(trajectory.tool_calls)
    for identifier in list(matches.asked)[:-MOST_WAITING]:
        matches.asked.pop(identifier, None)


def forget(trajectory: OpenTrajectory, identifier: str) -> None:
    """Forget a call that runs no tool: by it, an agent hands over to another one."""
    trajectory.finish_unparsed()
    trajectory.tool_matches.asked.pop(text(identifier, MAXIMUM_LENGTH), None)


def returned(scope: Scope, trajectory: OpenTrajectory, body: Mapping[str, Any]) -> None:
    """Record the results in a request that begins, and count the calls that nobody else has seen."""
    results, marks = _results_in(body), None
    first = next(results, None)
    if first is None:
        return
    # Their answer may have been read by other means than the client's: it is parsed by now.
    trajectory.finish_unparsed()
    trajectory.turns.number_open()
    for identifier, content, failed in reversed((first, *results)):
        call = trajectory.tool_matches.asked.pop(text(identifier, MAXIMUM_LENGTH), None)
        if call is not None:
            if not call.has_run and _counts(trajectory, call.group, failed=failed):
                marks = _marks_in(body) if marks is None else marks
                trajectory.add_to_row(trajectory.row_here(), call.name, marks.get(identifier), _mark(content))
            _record_returned(scope, trajectory, call, identifier, content)
        if not trajectory.tool_matches.asked:
            return


def _latest(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the messages or items of a request, the last one first."""
    given = items_of(body.get("messages")) or items_of(body.get("input"))
    return map(fields_of, islice(reversed(given), _MOST_MESSAGES))


def _results_in(body: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool | None]]:
    """Id, content and failure, if that is said, of the results after a request's last answer; the last result first."""
    for fields in _latest(body):
        identifier, content = fields.get("tool_call_id"), fields.get("content")
        if identifier is None and str(fields.get("type")).endswith("_call_output"):
            identifier, content = fields.get("call_id"), fields.get("output")
        if isinstance(identifier, str):
            yield identifier, content, None
        elif fields.get("role") == "assistant":
            return
        else:
            # In Messages they are blocks of one message of the user.
            for block in map(fields_of, islice(reversed(items_of(content)), _MOST_MESSAGES)):
                if isinstance(block.get("tool_use_id"), str):
                    yield block["tool_use_id"], block.get("content"), block.get("is_error") is True


def _marks_in(body: Mapping[str, Any]) -> dict[str, int | None]:
    """Return a number for the arguments of each call that the last answer in a request asks for, by id."""
    marks: dict[str, int | None] = {}
    for fields in _latest(body):
        if is_call(fields):
            marks[str(fields.get("call_id"))] = _mark(fields.get("arguments"))
        elif fields.get("role") == "assistant":
            for call in map(fields_of, islice(items_of(fields.get("tool_calls")), MOST_ASKED)):
                marks[str(call.get("id"))] = _mark(fields_of(call.get("function")).get("arguments"))
            for block in map(fields_of, islice(items_of(fields.get("content")), MOST_ASKED)):
                if "input" in block:
                    marks[str(block.get("id"))] = _mark(str(block["input"]))
            break
    return marks


def _mark(content: Any) -> int | None:
    return hash(content) if isinstance(content, str) and len(content) < _LONGEST_ARGUMENTS else None


def _counts(trajectory: OpenTrajectory, group: _AnswerCalls, *, failed: bool | None) -> bool:
    """Count a call, unless a tool call without an id that was counted since the answer stands for it: then False.

    Which of the answer's calls that was nobody knows: of these the number is right, and with several answers at a time
    it is an estimate.
    """
    if trajectory.tool_matches.unmatched(trajectory.tool_calls) > group.seen:
        group.seen += 1
        return False
    trajectory.tool_matches.by_result += 1
    trajectory.tool_matches.unknown += failed is None
    trajectory.tool_call_ended(failed=failed is True)
    return True


def _record_returned(scope: Scope, trajectory: OpenTrajectory, call: AskedTool, identifier: str, content: Any) -> None:
    values = {
        attributes.GEN_AI_TOOL_NAME: call.name,
        attributes.GEN_AI_TOOL_CALL_ID: identifier,
        attributes.RL_TOOL_RESULT_SIZE: len(content) + 2 if isinstance(content, str) else None,
        attributes.RL_TOOL_ROUND_TRIP: time.perf_counter() - call.group.moment,
        attributes.RL_ROLLOUT_TURN: trajectory.turn,
    }
    scope.event(
        events.RL_TOOL_RETURNED, attributes={name: value for name, value in values.items() if value is not None}
    )
