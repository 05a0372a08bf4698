"""The section on where the time of the steps goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core import steps as steps_module
from otel_rl.report.core.blocks import PageBlock, Section, timeline_block
from otel_rl.report.subjects.steps import slowest_step, step_tables
from otel_rl.report.subjects.weight_syncs.section import stages_table

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.steps import Steps

#: Said of steps that neither the program nor a trainer has marked.
_GUESSED = (
    "The steps are guessed from optimizer steps: one begins where the one before has ended, so pauses, rollouts and"
    " evaluations without a data loader are part of it; forward passes are known where a data loader has given the"
    " batch."
)
#: Said of steps that only the program's log calls show.
_LOGGED = (
    "The steps are taken from what the program logs: one lasts from the log call of the step before to its own, or for"
    " the time that it logs. Phases are the other times that it logs; when each began is not known."
)


def build(collected: Collected, charts: Charts) -> Section:
    """Return step time by phase, or durations of phases where no step was traced."""
    steps = collected.steps
    filler = (
        "Steps come from a supported trainer or from otel_rl.step() around each iteration of your own loop, or are"
        " guessed from the optimizer steps of PyTorch, or taken from what a tracker gets by step."
    )
    section = Section("steps", "Where step time goes", filler)
    if not steps.ranks:
        return _without_steps(section, collected)
    section.lead = "Time of each step by phase, mean over the ranks; every phase without the phases inside it."
    section.lead += _between_phases(steps)
    if steps.guessed:
        section.lead += f" {_GUESSED}"
    elif steps.logged:
        section.lead += f" {_LOGGED}"
    section.blocks.append(PageBlock(charts=[charts.phases("Step time by phase", steps)]))
    section.blocks.append(PageBlock(table=step_tables.phases(steps)))
    stages = stages_table(collected)
    if stages.rows:
        note = "Operations on engines of all processes; those on weights are the phase sync or a part of it."
        section.blocks.append(PageBlock("Weight sync by stage", note, stages))
    if collected.loops.others():
        section.lead += f" Charts over steps show this alone: {collected.loops.title}."
        left_out = human.amount(collected.loops.left_out, "older part") if collected.loops.left_out else ""
        note = f"{left_out} of a loop not listed." if left_out else ""
        section.blocks.append(PageBlock("Loops and attempts", note, table=step_tables.loops(collected.loops)))
    section.blocks += [timeline_block("Slowest step: ", spans, charts) for spans in slowest_step.timelines(collected)]
    return section


def _between_phases(steps: Steps) -> str:
    """Return a sentence on the time between steps, and on the time of a step in no phase."""
    count = steps.lengths.cell.count
    waited, uncovered = steps.waits.cell.total / count, steps.uncovered.cell.total / count
    share = uncovered / steps.lengths.cell.mean if steps.lengths.cell.mean else 0.0
    where = "In a step" if steps.guessed else "Between steps"
    text = f" {where} a rank waits {human.duration(waited)} for data on average." if waited else ""
    if at_once := steps.seconds_at_once() / count:
        text += f" Phases run at once: their times add up to {human.duration(at_once)} more than a step takes."
    return f"{text} {human.duration(uncovered)} of a step ({human.percent(share)}) are in no phase (uncovered)."


def _without_steps(section: Section, collected: Collected) -> Section:
    spreads = steps_module.from_histograms(collected.totals) or collected.steps.inclusive
    if spreads:
        section.lead = "No step trace was recorded; these are the durations of the phases alone."
        section.blocks.append(PageBlock(table=step_tables.durations(spreads)))
    return section
