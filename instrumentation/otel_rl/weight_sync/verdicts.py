"""Whether the weights that an engine generates with are those of the trainer: one verdict per comparison.

The engine's weights come in as :class:`EngineWeights`, the trainer's as :class:`Parameters`. Nothing is
assumed of names: a tensor of the engine is compared once it was seen to hold what one tensor of the trainer holds, or
two or three that follow each other (``qkv_proj``, ``gate_up_proj``). So frozen, merged and quantized tensors, and those
of which this rank has only a part, are never compared. Of them only a change that always came and now does not counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.semconv.attributes import RlSyncVerdictValues as Verdict
from otel_rl.weight_sync.tensor_sums import added

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_rl.weight_sync.trainer_updates import Parameters

#: Syncs in which a tensor that is not compared has changed each time before its standing still counts.
ALWAYS = 3
#: Tensors that a fused one joins, and how far they lie apart: a bias may stand between.
_JOINED, _APART = 3, 2


class EngineWeights(NamedTuple):
    """The weights of an engine, as far as it was asked for them.

    Attributes:
        logprobs: log-probabilities of the tokens of a fixed prompt; None where it was not asked.
        sums: of each tensor, see ``tensor_sums``, of each worker; None where it was not asked.
    """

    logprobs: tuple[float, ...] | None = None
    sums: Mapping[str, tuple[int, ...]] | None = None


@dataclass(slots=True)
class SyncOutcome:
    """One comparison.

    Attributes:
        verdict: a value of ``rl.sync.verdict``.
        is_problem: it is reported.
        updates: steps of the optimizers since the engine was last found to hold what the trainer holds.
        compared: tensors of the engine that could be compared.
        changed: tensors that have changed since the comparison before; None where only log-probabilities are known.
        behind: names of tensors that should have changed.
    """

    verdict: str
    is_problem: bool = False
    updates: int = 0
    compared: int = 0
    changed: int | None = None
    behind: list[str] = field(default_factory=list)


class SyncVerdicts:
    """The comparisons of one engine with the trainer of its process."""

    def __init__(self) -> None:
        self._engine: EngineWeights | None = None
        self._trainer: Parameters | None = None
        #: Tensors of the engine that have held what the trainer holds.
        self._known: set[str] = set()
        #: Tensor -> in how many of the syncs so far it changed.
        self._changes: dict[str, int] = {}
        self._syncs = 0
        #: Steps of the optimizers when the engine was last found up to date.
        self._current_at = 0
        #: How often in a row the engine was used although the trainer had moved on, and the most of that so far.
        self._uses, self._most_uses = 0, 0

    def begin(self, engine: EngineWeights, trainer: Parameters | None) -> None:
        """Keep the first contents, with nothing to compare them with."""
        self._engine, self._trainer = engine, trainer
        if trainer is not None:
            self._current_at = trainer.updates
            self._learn(engine, _contents(trainer))

    def compare(
        self, engine: EngineWeights, trainer: Parameters | None, first: Parameters, *, after_sync: bool
    ) -> SyncOutcome:
        """Return the verdict on an engine that is about to generate.

        Args:
            engine: its weights now.
            trainer: the trainer's, None where they cannot be read.
            first: the parameters before the first step, for those that had not stepped the last time.
            after_sync: an operation has brought weights since the last time.
        """
        before = self._engine or engine
        changed = _changed(before, engine)
        is_unchanged = not changed if changed is not None else before.logprobs == engine.logprobs
        outcome = SyncOutcome(Verdict.UNKNOWN, changed=None if changed is None else len(changed))
        # What both were like at the same time belongs together.
        if trainer is not None or self._trainer is None:
            self._engine = engine
        if trainer is None:
            return outcome
        held = first if self._trainer is None else self._trainer.since(first)
        self._trainer = trainer
        if not trainer.is_laid_out_as(held):
            self._known.clear()
            self._learn(engine, _contents(trainer))
            return outcome
        if not self._known:
            self._learn(before, _contents(held))
        outcome.compared = len(self._known)
        outcome.updates = trainer.updates - self._current_at
        moved = trainer.moved_since(held)
        if self._known:
            self._compare_tensors(outcome, engine, _contents(trainer), _contents(held), changed or set())
        elif held.sums:
            outcome.verdict = Verdict.SKIPPED if moved and is_unchanged else Verdict.CURRENT
        if outcome.verdict == Verdict.CURRENT and not is_unchanged:
            self._count_sync(outcome, changed or set(), moved=moved)
        self._learn(engine, _contents(trainer))
        self._follow(outcome, trainer, after_sync=after_sync)
        return outcome

    def _compare_tensors(
        self,
        outcome: SyncOutcome,
        engine: EngineWeights,
        contents: frozenset[int],
        earlier: frozenset[int],
        changed: set[str],
    ) -> None:
        other = {name for name in self._known if not _holds(engine, name, contents)}
        still = other - changed
        if not other:
            outcome.verdict = Verdict.CURRENT
        elif not changed:
            outcome.verdict, outcome.behind = Verdict.SKIPPED, sorted(other)
        elif all(_holds(engine, name, earlier) for name in self._known):
            # All of it is of the version before: the trainer went on after a sync that was not seen.
            outcome.verdict = Verdict.BEHIND
        elif still:
            outcome.verdict, outcome.behind = Verdict.PARTIAL, sorted(still)
        else:
            outcome.verdict = Verdict.DIFFERENT

    def _count_sync(self, outcome: SyncOutcome, changed: set[str], *, moved: bool) -> None:
        """Count a sync that left no compared tensor behind; of the others, missing changes count."""
        if moved:
            outcome.behind = sorted(
                name
                for name, number in self._changes.items()
                if number == self._syncs >= ALWAYS and name not in changed and name not in self._known
            )
            if outcome.behind:
                outcome.verdict = Verdict.PARTIAL
        self._syncs += 1
        for name in changed:
            self._changes[name] = self._changes.get(name, 0) + 1

    def _follow(self, outcome: SyncOutcome, trainer: Parameters, *, after_sync: bool) -> None:
        """Decide what is reported: faults of a sync, and a missing one where it never took as long."""
        if outcome.verdict == Verdict.CURRENT:
            self._current_at, outcome.updates = trainer.updates, 0
            self._uses = 0
        elif outcome.verdict == Verdict.SKIPPED and not after_sync:
            self._uses += 1
            outcome.is_problem = self._syncs > 0 and self._uses > self._most_uses
            self._most_uses = max(self._most_uses, self._uses)
            if not outcome.is_problem:
                outcome.verdict = Verdict.BEHIND
        else:
            outcome.is_problem = outcome.verdict in (Verdict.SKIPPED, Verdict.PARTIAL)

    def _learn(self, engine: EngineWeights, contents: frozenset[int]) -> None:
        """Add the tensors that hold what the trainer holds; those with equal values cannot be distinguished."""
        if engine.sums is None or not contents:
            return
        number = Counter(engine.sums.values())
        self._known.update(
            name for name, sums in engine.sums.items() if number[sums] == 1 and _holds(engine, name, contents)
        )


def _changed(before: EngineWeights, now: EngineWeights) -> set[str] | None:
    """Return the tensors of the engine that differ; None where they are not known."""
    if before.sums is None or now.sums is None:
        return None
    return {name for name, sums in now.sums.items() if before.sums.get(name) != sums}


def _holds(engine: EngineWeights, name: str, contents: frozenset[int]) -> bool:
    """Return whether the tensor of the engine holds what the trainer holds; in parts, or each worker all of it."""
    sums = (engine.sums or {}).get(name, ())
    return bool(sums) and (added(*sums) in contents or (len(set(sums)) == 1 and sums[0] in contents))


def _contents(trainer: Parameters) -> frozenset[int]:
    """Return the sums of the trainer's tensors, and of those that an engine may hold as one."""
    contents: set[int] = set()
    for sums in trainer.sums.values():
        for apart in range(1, _APART + 1):
            for index in range(len(sums)):
                joined = sums[index : index + _JOINED * apart : apart]
                for number in range(1, len(joined) + 1):
                    parts = [part for part in joined[:number] if part is not None]
                    if len(parts) == number:
                        contents.add(added(*parts))
    # Of tensors that are all zero, such as a new bias: everything that is zero would be the same.
    contents.discard(0)
    return frozenset(contents)
