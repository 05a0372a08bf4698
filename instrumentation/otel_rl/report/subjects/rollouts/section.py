"""The section on rollouts and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human, sentences
from otel_rl.report.core.blocks import PageBlock, Section, line_chart, some_charts, timeline_block
from otel_rl.report.subjects.calls import call_tables, rollouts, slowest_rollouts, statistics
from otel_rl.report.subjects.rollouts.finding import in_words, tail_of

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.lines import Line

_SECONDS = "seconds"


def build(collected: Collected, charts: Charts) -> Section:
    """Return statistics, charts and timelines of rollouts, and agents."""
    filler = (
        f"Rollouts come from {sentences.ROLLOUT_FUNCTIONS}, from otel_rl.rollout() or from an agent framework; "
        "samples that a trainer generates in one batch have no span of their own."
    )
    section = Section("rollouts", "Rollouts and agents", filler)
    slow = rollouts.slowest(collected)
    if slow:
        tail = tail_of(collected)
        section.lead = in_words(tail) if tail is not None else ""
        table = call_tables.calls([rollouts.of_run(collected).statistics], "Rollouts")
        section.blocks.append(PageBlock(table=table))
        section.blocks += _over_time(collected, charts)
        slowest = call_tables.slow_calls(slow, "Rollout", "Belongs to")
        section.blocks.append(PageBlock("Slowest rollouts", table=slowest))
        section.blocks += [
            timeline_block("Slowest rollouts: ", spans, charts) for spans in slowest_rollouts.timelines(collected)
        ]
    if said := slowest_rollouts.said(collected):
        title = f"What was said in {human.amount(len(said), 'call')} of the slowest rollouts"
        texts = [text.conversation(f"drawn-{text.span_id}") for text in said]
        section.blocks.append(PageBlock(title, folded=True, conversations=texts))
    if services := statistics.services(collected):
        table = call_tables.calls(services, "Service")
        section.blocks.append(PageBlock("Time in services", table=table))
    for what, called in (("Agent", statistics.agents(collected)), ("Workflow", statistics.workflows(collected))):
        if called:
            section.blocks.append(PageBlock(f"{what}s", table=call_tables.calls(called, what)))
    return section


def _over_time(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Return duration and reward of rollouts by rank."""
    seconds, rewards = (_by_rank(rollouts.over_steps(collected, value)) for value in ("seconds", "reward"))
    hint = "mean of the step, by rank"
    return some_charts(
        line_chart(charts, "rollout-seconds", "Duration of a rollout", hint, seconds, _SECONDS),
        line_chart(charts, "rollout-reward", "Reward of a rollout", hint, rewards, "reward"),
    )


def _by_rank(lines: dict[Any, Line]) -> dict[str, Line]:
    return {"all" if rank is None else f"rank {rank}": line for rank, line in lines.items()}
