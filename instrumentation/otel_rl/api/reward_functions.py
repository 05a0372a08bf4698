"""One call of a reward function: a span of its own, and the score that it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current

from otel_rl.api import sample_ids, score_forms, scored_rollouts, scores
from otel_rl.api.call_content import Result, captured
from otel_rl.core.guard import guard
from otel_rl.semconv import attributes, spans
from otel_rl.telemetry import deferral, open_trajectory
from otel_rl.telemetry.attribute_values import text
from otel_rl.telemetry.cardinality_budgets import MAXIMUM_LENGTH
from otel_rl.telemetry.scope import Scope
from otel_rl.training import trainer_loop
from otel_rl.training.phases import Phase, innermost

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_rl.telemetry.deferral import Moment
    from otel_rl.training.trajectory_shares import TrajectoryName

_scope = Scope("api")
_REWARD = spans.RL_REWARD.type.removeprefix("rl.")
#: Most spans in a step, of calls that belong to no rollout: a loop may score sample by sample.
MOST_SPANS = 16
#: Most rollouts that the span of one call links to.
MOST_LINKS = 32


class RewardFunction:
    """Times the call; its score is recorded when it has returned, for the rollout around it.

    Where a trainer calls the function, the trainer's instrumentor records span and scores; then this adds content only.
    """

    def __init__(
        self,
        name: object,
        weight: object,
        arguments: object,
        *,
        is_exclusive: bool = True,
        is_named: bool = False,
        is_part: bool = False,
    ) -> None:
        #: The evaluated: a score belongs to the rollout, and not to the span of its function.
        self._context = get_current()
        self._name = text(str(name), MAXIMUM_LENGTH)
        self._weight = weight
        #: Its score is only a part of another function's.
        self._is_part = is_part
        self._value: Any = None
        self._trajectory = open_trajectory.current(self._context)
        self._is_owned = self._trajectory is None and trainer_loop.current().is_open(spans.RL_REWARD)
        #: Of a named function outside of all rollouts: the one that its sample is of, or that of each of a batch.
        self._scored: list[TrajectoryName | None] = []
        self._is_batch = False
        self._joins = is_named and scored_rollouts.around(self._context) is None
        if self._joins:
            self._find(arguments)
        content = captured(arguments)
        self._phase: Phase | None = None
        self._result: Result | None = None
        if self._is_owned:
            self._enrich(content)
            return
        values = {
            attributes.RL_REWARD_NAME: self._name,
            attributes.RL_REWARD_WEIGHT: weight if isinstance(weight, int | float) and weight != 1 else None,
            attributes.RL_REWARD_INPUT: content,
            **self._ids(arguments),
        }
        limit = None if self._trajectory is not None else MOST_SPANS
        self._phase = Phase(
            spans.RL_REWARD, _scope, values, limit, has_duration=False, is_exclusive=is_exclusive
        ).start()
        self._result = Result(self._phase.span, attributes.RL_REWARD_OUTPUT)
        self._link(self._phase.span)

    @property
    def context_inside(self) -> Context | None:
        """Context of what it calls, for code that runs elsewhere; None if it has no span."""
        return None if self._phase is None else self._phase.context or None

    def _ids(self, arguments: object) -> dict[str, Any]:
        """Return the ids of the sample, and of the one rollout that it scores outside of it."""
        if not self._joins:
            return {}
        rollout = getattr(self._scored[0], "rollout", None) if len(self._scored) == 1 else None
        return {attributes.RL_ROLLOUT_ID: rollout, attributes.RL_SAMPLE_ID: sample_ids.of_arguments(arguments).sample}

    def _link(self, span: Span) -> None:
        """Link the rollouts of this process that it scores outside of them."""
        for name in self._scored[:MOST_LINKS]:
            root = sample_ids.root_of(name)
            if root is not None:
                span.add_link(root)

    def _find(self, arguments: object) -> None:
        with guard("producer.sample_ids"):
            self._scored = sample_ids.rollouts_of_batch(arguments)
            self._is_batch = bool(self._scored)
            if not self._is_batch:
                self._scored = [sample_ids.rollout_of_call(arguments)]

    def _enrich(self, content: str | None) -> None:
        """Add to the span that the trainer's instrumentor has open for this function, where it has one."""
        phase = innermost()
        if phase is None or phase.name != _REWARD or phase.interrupts:
            return
        self._result = Result(phase.span, attributes.RL_REWARD_OUTPUT)
        if content is not None:
            phase.span.set_attribute(attributes.RL_REWARD_INPUT, content)

    def result(self, value: Any) -> None:
        """Keep what the function has returned."""
        self._value = value
        if self._result is not None:
            self._result.take(value)

    def _join_judge_calls(self) -> None:
        """Let what its judges were asked join the one rollout that it has scored; of several nothing says which."""
        judging = None if self._phase is None else self._phase.judging
        name = self._scored[0] if len(self._scored) == 1 else None
        if judging is not None and name is not None:
            judging.join(scored_rollouts.by_name(name).add_judge_calls)

    def leave(self) -> None:
        """Make current again what was current before."""
        if self._phase is not None:
            self._phase.leave()

    def end(self, error: BaseException | str | None, at: Moment | None) -> None:
        """End the span, and record the score unless the call failed."""
        if self._phase is None:
            return
        value, self._value = self._value, None
        with guard("producer.score"):
            if error is None and sample_ids.read(value, "reward") is not None:
                error = score_forms.failure_of(value)
            if error is None and value is not None:
                if self._joins and not self._is_batch and self._scored == [None]:
                    self._scored = [sample_ids.rollout_of(value)]
                given = {"is_batch": self._is_batch, "is_part": self._is_part}
                scores.returned(self._context, self._name, value, self._weight, self._scored, **given)
            self._join_judge_calls()
        if error is not None and self._trajectory is not None:
            self._trajectory.span_errors += 1
        if at is None:
            self._phase.close(error)
            return
        with deferral.inside_sdk():
            self._phase.close(error, at)
