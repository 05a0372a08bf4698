"""Before an engine generates with other weights, or after the trainer has moved on: are they the trainer's weights?

Only with ``OTEL_RL_SYNC_CHECK``. The engine is asked in the program's thread, when the program is about to generate and
the engine has nothing else to do. It is asked once per version of the weights and step of the optimizers.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry._logs import SeverityNumber

from otel_rl.core import settings
from otel_rl.core.guard import guard, logger
from otel_rl.instrumentors.vllm import engine_contents
from otel_rl.instrumentors.vllm.engines import scope
from otel_rl.instrumentors.vllm.weights import of_engine
from otel_rl.semconv import attributes, events, metrics
from otel_rl.semconv.attributes import RlSyncVerdictValues as Verdict
from otel_rl.training import steps
from otel_rl.weight_sync.trainer_updates import trainer_updates
from otel_rl.weight_sync.verdicts import SyncVerdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_rl.instrumentors.patching import Patches
    from otel_rl.weight_sync.trainer_updates import Parameters
    from otel_rl.weight_sync.verdicts import SyncOutcome

#: Tensors that an event names.
MOST_NAMES = 16
#: Methods of workers that are about weights and bring none.
_READS = re.compile(r"(get|check|has|list|count|compute|save|dump|init|destroy)_", re.IGNORECASE)
#: And its sentence.
_SAID = 3
_SITE = guard("vllm.sync_check")


class EngineCheck:
    """The comparisons of one ``LLMEngine``."""

    def __init__(self, mode: str) -> None:
        self._asks_prompt, self._asks_sums = mode in ("logprobs", "all"), mode in ("checksums", "all")
        self._prompt: tuple[int, ...] | None = None
        self._verdicts = SyncVerdicts()
        #: Steps of the optimizers at the last comparison; None before the first one.
        self._compared_at: int | None = None
        #: The last operation that brought weights since then, and what the trainer held when it ended.
        self._operation: str | None = None
        self._at_operation: Parameters | None = None
        self.is_off = False

    def brought(self, engine: Any, operation: str) -> None:
        """An operation that brings weights has ended."""
        self._operation = operation
        if not self.is_off:
            self._at_operation = trainer_updates.read(engine.model_config.dtype)

    def generating(self, engine: Any) -> None:
        """The program is about to generate."""
        is_due = self._operation is not None or self._compared_at != trainer_updates.updates
        if self.is_off or not is_due or of_engine(engine).is_updating:
            return
        # First of all: an engine that computes in step with others asks them whether it is idle.
        if self._compared_at is None and (reason := engine_contents.unsuitable(engine)):
            self._switch_off(reason)
            return
        if not engine_contents.is_idle(engine):
            return
        began = time.perf_counter()
        if self._compared_at is None and not self._prepare(engine):
            return
        try:
            told = engine_contents.ask(engine, self._prompt, sums=self._asks_sums)
        except Exception as error:  # noqa: BLE001 - the engine's; the program does not ask for it
            self._switch_off(f"{type(error).__name__}: {error}")
            return
        dtype = engine.model_config.dtype
        trainer = self._at_operation or trainer_updates.read(dtype)
        operation, self._operation, self._at_operation = self._operation, None, None
        is_first = self._compared_at is None
        self._compared_at = trainer_updates.updates
        if is_first:
            self._verdicts.begin(told, trainer)
            return
        first = trainer_updates.first(dtype)
        outcome = self._verdicts.compare(told, trainer, first, brought=operation is not None)
        scope.record(metrics.RL_SYNC_CHECKS, 1, {attributes.RL_SYNC_VERDICT: outcome.verdict})
        scope.record(metrics.RL_SYNC_CHECK_DURATION, time.perf_counter() - began)
        if outcome.is_problem:
            _tell(engine, outcome, operation)

    def _prepare(self, engine: Any) -> bool:
        """Before the first question; False where there is nothing to ask."""
        if self._asks_sums:
            self._try_sums(engine)
        if self._asks_prompt:
            self._prompt = engine_contents.prompt_of(engine)
            if not self._prompt and not self._asks_sums:
                self._switch_off("no prompt is short enough to leave nothing in its cache")
                return False
        trainer_updates.compare_as(engine.model_config.dtype)
        return True

    def _switch_off(self, reason: str) -> None:
        self.is_off = True
        _warn(f"the weights of the engine are not compared: {reason}")

    def _try_sums(self, engine: Any) -> None:
        """Log-probabilities instead, where the engine gives no sums."""
        try:
            sums = engine_contents.sums_of(engine)
        except TypeError:
            # https://docs.vllm.ai/en/latest/configuration/env_vars.html, VLLM_ALLOW_INSECURE_SERIALIZATION
            self._asks_sums, self._asks_prompt = False, True
            _warn("no checksums, log-probabilities only: the engine runs in a process that takes no functions")
            return
        hidden = sum(None in one for one in sums.values())
        if hidden:
            self._asks_prompt = True
            _warn(f"{hidden} of {len(sums)} tensors of the engine cannot be read: it keeps them in a form of its own")


_checks: WeakKeyDictionary[Any, EngineCheck] = WeakKeyDictionary()


def watch(patches: Patches) -> None:
    """Follow the optimizers of this process, where the user asks for comparisons."""
    if settings.current().sync_check == "off":
        return
    end: Callable[[], None] | None = trainer_updates.watch()
    if end is not None:
        patches.on_restore(end)


def brought(engine: Any, operation: str) -> None:
    """An operation of this name has brought weights, or a part of them, to ``engine``."""
    with _SITE:
        check = None if _READS.match(operation) else _check_of(engine)
        if check is not None:
            check.brought(_core(engine), operation)


def generating(llm: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """The program calls ``llm`` with these arguments, to generate."""
    check = _check_of(llm)
    if check is None or _with_adapter(given, named):
        return
    with _SITE:
        try:
            check.generating(_core(llm))
        except BaseException:
            # Asking again might do harm again.
            check.is_off = True
            raise


def _core(engine: Any) -> Any:
    return getattr(engine, "llm_engine", engine)


def _check_of(engine: Any) -> EngineCheck | None:
    mode = settings.current().sync_check
    core = _core(engine)
    # An ``AsyncLLM`` is another kind, which cannot be asked from a thread that must not wait.
    if mode == "off" or not hasattr(core, "step"):
        return None
    found = _checks.get(core)
    if found is None:
        found = _checks.setdefault(core, EngineCheck(mode))
    return found


def _with_adapter(given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """True where the program generates with an adapter: its weights are not those of the model."""
    values = (*given, *named.values())
    return any(type(one[0] if isinstance(one, list) and one else one).__name__ == "LoRARequest" for one in values)


def _tell(engine: Any, outcome: SyncOutcome, operation: str | None) -> None:
    step = steps.where().step
    values = {
        attributes.RL_SYNC_VERDICT: outcome.verdict,
        attributes.RL_SYNC_OPERATION: operation,
        attributes.RL_SYNC_UPDATES_BEHIND: outcome.updates,
        attributes.RL_SYNC_TENSORS_COMPARED: outcome.compared or None,
        attributes.RL_SYNC_TENSORS_CHANGED: outcome.changed,
        attributes.RL_SYNC_TENSORS_BEHIND: len(outcome.behind) or None,
        attributes.RL_SYNC_TENSORS_NAMES: outcome.behind[:MOST_NAMES] or None,
        attributes.RL_POLICY_VERSION: of_engine(engine).version(),
        attributes.RL_LOOP_ITERATION: step.iteration if step else None,
        attributes.RL_LOOP_NAME: step.loop.name if step else None,
    }
    scope.event(
        events.RL_SYNC_PROBLEM,
        body=_sentence(outcome, operation),
        attributes={name: value for name, value in values.items() if value is not None},
        severity=SeverityNumber.WARN,
        context=step.context if step else None,
    )


def _sentence(outcome: SyncOutcome, operation: str | None) -> str:
    how = "no operation brought weights" if operation is None else f"after {operation}"
    if outcome.verdict == Verdict.SKIPPED:
        return f"The trainer has moved on and the engine holds the weights from before ({how})."
    named = ", ".join(outcome.behind[:_SAID]) + (" and others" if len(outcome.behind) > _SAID else "")
    numbers = f"{outcome.changed} have changed, {len(outcome.behind)} should have and have not"
    return f"Of the engine's tensors {numbers} ({how}): {named}."


def _warn(text: str) -> None:
    logger.warning("otel-rl: OTEL_RL_SYNC_CHECK: %s", text)
