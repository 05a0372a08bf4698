"""The section on rollouts and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human, sentences
from otel_rl.report.core.blocks import PageBlock, Section, line_chart, some_charts, timeline_block
from otel_rl.report.subjects.calls import call_tables
from otel_rl.report.subjects.calls.aggregate import Calls
from otel_rl.report.subjects.calls.call_texts import CallTexts
from otel_rl.report.subjects.rollouts.finding import in_words, tail_of

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.over_time import Line

_SECONDS = "seconds"


def build(collected: Collected, charts: Charts) -> Section:
    """Return statistics, charts and timelines of rollouts, and agents."""
    calls = collected[Calls]
    filler = (
        f"Rollouts come from {sentences.ROLLOUT_FUNCTIONS}, from otel_rl.rollout() or from an agent framework; "
        "samples that a trainer generates in one batch have no span of their own."
    )
    section = Section("rollouts", "Rollouts and agents", filler)
    slow = calls.rollouts.slowest.items()
    if slow:
        tail = tail_of(collected)
        section.lead = in_words(tail) if tail is not None else ""
        statistics = call_tables.calls([calls.rollouts.statistics], "Rollouts")
        section.blocks.append(PageBlock(table=statistics))
        section.blocks += _over_time(collected, charts)
        section.blocks.append(PageBlock("Slowest rollouts", table=call_tables.slow_rollouts(slow)))
        section.blocks += [
            timeline_block("Slowest rollouts: ", spans, charts) for spans in collected[Calls].slowest_rollouts
        ]
    drawn = [text for texts in collected[CallTexts].drawn for text in texts]
    if drawn:
        title = f"What was said in {human.amount(len(drawn), 'call')} of the slowest rollouts"
        texts = [text.conversation(f"drawn-{text.span_id}") for text in drawn]
        section.blocks.append(PageBlock(title, folded=True, conversations=texts))
    services = calls.services(collected.totals)
    if services:
        table = call_tables.calls(services, "Service")
        section.blocks.append(PageBlock("Time in services", table=table))
    agents = calls.agents(collected.totals)
    if agents:
        section.blocks.append(PageBlock("Agents", table=call_tables.calls(agents, "Agent")))
    return section


def _over_time(collected: Collected, charts: Charts) -> list[PageBlock]:
    """Return duration and reward of rollouts by rank."""
    rollouts = collected[Calls].rollouts
    hint = "mean of the step, by rank"
    return some_charts(
        line_chart(
            charts, "rollout-seconds", "Duration of a rollout", hint, _by_rank(rollouts.seconds.lines()), _SECONDS
        ),
        line_chart(charts, "rollout-reward", "Reward of a rollout", hint, _by_rank(rollouts.rewards.lines()), "reward"),
    )


def _by_rank(lines: dict[Any, Line]) -> dict[str, Line]:
    return {"all" if rank is None else f"rank {rank}": line for rank, line in lines.items()}
