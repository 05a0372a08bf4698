"""Before an engine generates with other weights, or after the trainer has moved on: are they the trainer's weights?

Only with ``OTEL_RL_SYNC_CHECK``. The engine is asked in the program's thread, when the program is about to generate and
the engine is idle: once per version of the weights and step of the optimizers. What depends on the kind of engine is
behind :class:`CheckedEngine`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from opentelemetry._logs import SeverityNumber

from otel_rl.core import settings
from otel_rl.core.guard import logger
from otel_rl.semconv import attributes, events, metrics
from otel_rl.semconv.attributes import RlSyncVerdictValues as Verdict
from otel_rl.training import steps
from otel_rl.weight_sync.trainer_updates import trainer_updates
from otel_rl.weight_sync.verdicts import SyncVerdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_rl.telemetry import Scope
    from otel_rl.weight_sync.trainer_updates import Parameters
    from otel_rl.weight_sync.verdicts import EngineWeights, SyncOutcome

#: Tensors that an event names in its attributes, and in its sentence.
MAX_TENSORS_IN_EVENT = 16
MAX_TENSORS_IN_MESSAGE = 3


class CheckedEngine(Protocol):
    """An engine in this process, as the instrumentor of its library presents it to the check."""

    scope: Scope

    @property
    def identity(self) -> Any:
        """The object of the program that is the engine; it can be referenced weakly."""

    @property
    def dtype(self) -> Any:
        """Floating type of its parameters."""

    @property
    def is_updating(self) -> bool:
        """Whether an update of several calls has begun and not ended."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the program is in the engine, and it is awake."""

    def unsuitable(self) -> str | None:
        """Return why the engine must not be asked for anything on its own; None where it may be."""

    def prompt(self) -> tuple[int, ...] | None:
        """Return the tokens of the fixed prompt; None where no prompt leaves the engine as it was."""

    def sums(self) -> dict[str, tuple[int | None, ...]]:
        """Return the sums over its parameters by name, of each worker; None for one that holds no data.

        Raises:
            TypeError: the engine cannot run a function of ours.
        """

    def contents(self, prompt: Sequence[int] | None, *, sums: bool) -> EngineWeights:
        """Return what the idle engine holds; without a ``prompt`` no log-probabilities."""

    def version(self) -> str:
        """Return the version of the weights that it generates with."""


class EngineCheck:
    """The comparisons of one engine.

    Attributes:
        is_off: the engine is not asked any more.
    """

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

    def sync_ended(self, engine: CheckedEngine, operation: str) -> None:
        """Note that an operation that brings weights has ended."""
        self._operation = operation
        if not self.is_off:
            self._at_operation = trainer_updates.read(engine.dtype)

    def before_generation(self, engine: CheckedEngine) -> None:
        """Compare the weights, where a comparison is due: the program is about to generate."""
        try:
            self._compare_if_due(engine)
        except BaseException:
            # Asking again might do harm again.
            self.is_off = True
            raise

    def _compare_if_due(self, engine: CheckedEngine) -> None:
        is_due = self._operation is not None or self._compared_at != trainer_updates.updates
        if self.is_off or not is_due or engine.is_updating:
            return
        # First of all: an engine that computes in step with others asks them whether it is idle.
        if self._compared_at is None and (reason := engine.unsuitable()):
            self._switch_off(reason)
            return
        if not engine.is_idle:
            return
        began = time.perf_counter()
        if self._compared_at is None and not self._prepare(engine):
            return
        try:
            contents = engine.contents(self._prompt, sums=self._asks_sums)
        except Exception as error:  # noqa: BLE001 - the engine's; the program does not ask for it
            self._switch_off(f"{type(error).__name__}: {error}")
            return
        dtype = engine.dtype
        trainer = self._at_operation or trainer_updates.read(dtype)
        operation, self._operation, self._at_operation = self._operation, None, None
        is_first = self._compared_at is None
        self._compared_at = trainer_updates.updates
        if is_first:
            self._verdicts.begin(contents, trainer)
            return
        first = trainer_updates.first(dtype)
        outcome = self._verdicts.compare(contents, trainer, first, after_sync=operation is not None)
        engine.scope.record(metrics.RL_SYNC_CHECKS, 1, {attributes.RL_SYNC_VERDICT: outcome.verdict})
        engine.scope.record(metrics.RL_SYNC_CHECK_DURATION, time.perf_counter() - began)
        if outcome.is_problem:
            _report(engine, outcome, operation)

    def _prepare(self, engine: CheckedEngine) -> bool:
        """Choose what the engine is asked for; return False where there is nothing to ask."""
        if self._asks_sums:
            self._try_sums(engine)
        if self._asks_prompt:
            self._prompt = engine.prompt()
            if not self._prompt and not self._asks_sums:
                self._switch_off("no prompt is short enough to leave nothing in its cache")
                return False
        trainer_updates.compare_as(engine.dtype)
        return True

    def _switch_off(self, reason: str) -> None:
        self.is_off = True
        _warn(f"the weights of the engine are not compared: {reason}")

    def _try_sums(self, engine: CheckedEngine) -> None:
        """Ask for sums once; fall back to log-probabilities where the engine gives none."""
        try:
            sums = engine.sums()
        except TypeError:
            self._asks_sums, self._asks_prompt = False, True
            _warn("no checksums, log-probabilities only: the engine runs in a process that takes no functions")
            return
        hidden = sum(None in of_workers for of_workers in sums.values())
        if hidden:
            self._asks_prompt = True
            _warn(f"{hidden} of {len(sums)} tensors of the engine cannot be read: it keeps them in a form of its own")


_checks: WeakKeyDictionary[Any, EngineCheck] = WeakKeyDictionary()


def check_of(identity: Any) -> EngineCheck | None:
    """Return the check of the engine that is ``identity``; None where the user wants no comparisons."""
    mode = settings.current().sync_check
    if mode == "off":
        return None
    return _checks.get(identity) or _checks.setdefault(identity, EngineCheck(mode))


def _report(engine: CheckedEngine, outcome: SyncOutcome, operation: str | None) -> None:
    step = steps.where().step
    values = {
        attributes.RL_SYNC_VERDICT: outcome.verdict,
        attributes.RL_SYNC_OPERATION: operation,
        attributes.RL_SYNC_UPDATES_BEHIND: outcome.updates,
        attributes.RL_SYNC_TENSORS_COMPARED: outcome.compared or None,
        attributes.RL_SYNC_TENSORS_CHANGED: outcome.changed,
        attributes.RL_SYNC_TENSORS_BEHIND: len(outcome.behind) or None,
        attributes.RL_SYNC_TENSORS_NAMES: outcome.behind[:MAX_TENSORS_IN_EVENT] or None,
        attributes.RL_POLICY_VERSION: engine.version(),
        attributes.RL_LOOP_ITERATION: step.iteration if step else None,
        attributes.RL_LOOP_NAME: step.loop.name if step else None,
    }
    engine.scope.event(
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
    others = " and others" if len(outcome.behind) > MAX_TENSORS_IN_MESSAGE else ""
    named = ", ".join(outcome.behind[:MAX_TENSORS_IN_MESSAGE]) + others
    numbers = f"{outcome.changed} have changed, {len(outcome.behind)} should have and have not"
    return f"Of the engine's tensors {numbers} ({how}): {named}."


def _warn(text: str) -> None:
    logger.warning("otel-rl: OTEL_RL_SYNC_CHECK: %s", text)
