"""One run per question, with the model calls, tools and nested agents that its messages report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.agents import runs
from otel_rl.agents.runs import AgentRun, RecordedRun
from otel_rl.inference import servers
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.requests import CHAT, ModelRequest
from otel_rl.instrumentors.followed_calls import following
from otel_rl.semconv import attributes
from otel_rl.semconv.attributes import ErrorTypeValues, GenAiProviderNameValues
from otel_rl.telemetry import Scope
from otel_rl.tools.calls import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.telemetry.deferral import Moment

    #: A call, and the agent that it runs.
    OpenTool = tuple[ToolCall, RecordedRun | None]

scope = Scope("claude_agent_sdk")
_UNKNOWN = "No such tool available:"
_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class ClaudeRun(AgentRun):
    """One question until its result."""

    def __init__(self, _arguments: Mapping[str, Any]) -> None:
        super().__init__(scope, runs.agent("claude"))
        self._model: str | None = None
        #: The model is being asked.
        self._asking: InferenceCall | None = None
        #: The last call with an answer, which has more blocks to come perhaps, and its last message.
        self._answered: tuple[InferenceCall, Any] | None = None
        #: Input tokens of the calls before.
        self._spent = 0
        self._tools: dict[str, OpenTool] = {}

    def produced(self, message: Any) -> None:
        """Take a message on its way to the program."""
        take = _MESSAGES.get(type(message).__name__)
        if take is not None:
            take(self, message)

    def _system(self, message: Any) -> None:
        if message.subtype == "init":
            self._model = message.data.get("model")
            if self.span is not None:
                self.span.set_attribute(attributes.GEN_AI_CONVERSATION_ID, str(message.data.get("session_id")))
            self._ask()

    def _ask(self) -> InferenceCall:
        if self._asking is None:
            server = servers.unplaced(GenAiProviderNameValues.ANTHROPIC)
            self._asking = InferenceCall(scope, ModelRequest(CHAT, server, {"model": self._model}))
        return self._asking

    def _assistant(self, message: Any) -> None:
        if message.parent_tool_use_id is None:
            if self._answered is None or self._answered[1].message_id != message.message_id:
                self._finish_answered()
                self._answered, self._asking = (self._ask(), message), None
            call = self._answered[0]
            self._answered = call, message
            call.begin_turn()
            call.record_body_read()
        for block in message.content:
            if type(block).__name__ == "ToolUseBlock":
                self._tool_begins(block)

    def _tool_begins(self, block: Any) -> None:
        call = ToolCall(scope, block.name, block.id, arguments=block.input).start()
        kind = block.input.get("subagent_type")
        agent = RecordedRun(scope, runs.agent(kind), None) if isinstance(kind, str) else None
        call.leave()
        self._tools[block.id] = call, agent

    def _user(self, message: Any) -> None:
        for block in message.content if isinstance(message.content, list) else ():
            tool = self._tools.pop(getattr(block, "tool_use_id", ""), None)
            if tool is not None:
                _end_tool(tool, ErrorTypeValues.OTHER if block.is_error else None, block.content)
        if not self._tools and message.parent_tool_use_id is None:
            self._ask()

    def _result(self, message: Any) -> None:
        self._finish_answered(message)
        # A question has one result, but a stream of them is one run.
        self._spent = 0
        reason = message.terminal_reason or message.subtype
        if message.is_error:
            self.fail(reason)
        if self.trajectory is not None:
            self.trajectory.stop_reason = reason

    def _finish_answered(self, result: Any = None) -> None:
        """End the last call with an answer; with the result of the run, by what is left of its sums."""
        answered, self._answered = self._answered, None
        if answered is None:
            return
        call, message = answered
        tokens, output = _input_of(message.usage), None
        if result is not None:
            tokens, output = _input_of(result.usage) - self._spent, (result.usage or {}).get("output_tokens")
        self._spent += tokens
        usage = {"prompt_tokens": tokens, "completion_tokens": output}
        reason = message.stop_reason or getattr(result, "stop_reason", None) or "tool_calls"
        choices = [{"index": 0, "finish_reason": reason}]
        call.answer.observe({"id": message.message_id, "model": message.model, "choices": choices, "usage": usage})
        call.answer.failure = message.error
        call.finish()

    def end(self, error: BaseException | str | None = None, at: Moment | None = None) -> None:
        """End the run, and the calls and tools whose end its process has not reported."""
        for tool in self._tools.values():
            _end_tool(tool, "cancelled", None)
        self._tools.clear()
        self._finish_answered()
        asking, self._asking = self._asking, None
        if asking is not None:
            if self._failure is not None:
                # Its limit of turns kept the process from asking.
                asking.withdraw()
            asking.finish(error if isinstance(error, BaseException) else None)
        super().end(self._failure or error, at)


def _end_tool(tool: OpenTool, failure: str | None, content: Any) -> None:
    call, agent = tool
    if agent is not None:
        agent.finish(failure)
    if failure is not None and f"{_UNKNOWN} {call.name}" in str(content):
        call.unknown()
    elif failure is not None:
        call.fail(failure)
    call.ended(content, None)


def _input_of(usage: Any) -> int:
    return sum((usage or {}).get(name) or 0 for name in _INPUT)


_MESSAGES = {
    "AssistantMessage": ClaudeRun._assistant,  # noqa: SLF001 - of this module
    "ResultMessage": ClaudeRun._result,  # noqa: SLF001
    "SystemMessage": ClaudeRun._system,  # noqa: SLF001
    "UserMessage": ClaudeRun._user,  # noqa: SLF001
}
#: A question with a process of its own.
patch_query = following("query", begin=ClaudeRun)
#: A question to a process that answers several.
patch_client = following("ClaudeSDKClient.receive_response", begin=ClaudeRun)
