"""The section on where the time of the whole run went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, seconds_cell
from otel_rl.report.subjects.run_time import shares

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.run_time.shares import Share

#: (Name on the page, what belongs to it, colour).
_ROWS = {
    shares.START: ("Start", "of Python, and of opentelemetry-instrument where it started the process", "#5b6472"),
    shares.TELEMETRY: ("otel-rl", "its part of the start, until the program begins", "#66a80f"),
    shares.IMPORTS: ("Imports", "of large libraries", "#5b5bd6"),
    "rendezvous": ("Process group", "until all ranks have joined", "#c2255c"),
    "data set": ("Data set", "load_dataset, map and filter", "#d9480f"),
    "tokenizer": ("Tokenizer", "from_pretrained", "#b08900"),
    "model": ("Model", "from_pretrained", "#f0a020"),
    "engine": ("Engine", "starting vLLM in the process", "#e879a6"),
    "trainer": ("Trainer", "making it, and preparing its first step", "#8fd19e"),
    "checkpoint": ("Checkpoint", "loading, outside of the above", "#c79a3a"),
    shares.BEFORE: ("Other, before", "before the first step or call, and none of the above", "#a3a9b5"),
    shares.PROGRAM: ("Program", "none of the above: it has no steps or calls that were recorded", "#a3a9b5"),
    shares.FIRST_STEP: ("First step", "with the wait for its data; warm-up and compilation fall into it", "#7cb7f2"),
    shares.STEPS: ("Steps", "all others, with the wait for data between them", "#2f7ed8"),
    shares.FIRST_CALL: ("First call", "of a model, tool or agent", "#7cb7f2"),
    shares.CALLS: ("Calls", "at least one call of a model, tool or agent is open", "#2f7ed8"),
    shares.CALLS_AND_BETWEEN: (
        "Calls, and between",
        "from the first call to the last one; not all rollouts have spans, so what lies between calls is not known",
        "#2f7ed8",
    ),
    shares.BETWEEN: ("Other, between", "between steps or calls, and none of the above", "#c9cdd5"),
    shares.EVALUATION: ("Evaluation", "inside of steps too", "#14a3a8"),
    shares.SAVING: ("Saving", "checkpoints and models, inside of steps too", "#8e5bb5"),
    shares.END: ("End", "after the last step or call", "#46b37b"),
}


def build(collected: Collected, charts: Charts) -> Section:
    """Return one bar, and a table of its parts."""
    filler = "The leading process records its parts; with a sampler some of its steps would be missing."
    section = Section("run_time", "Where the run's time went", filler)
    time = shares.of_run(collected)
    whole = sum(share.seconds for share in time.shares)
    if not whole:
        return section
    section.lead = (
        f"{human.duration(whole)} of the leading process, from its creation to its end or last record."
        f"{f' The steps are those of its worker {time.worker}.' if time.worker else ''}"
        " What happens inside of something else counts as itself, so the parts add up."
    )
    section.blocks.append(
        PageBlock(charts=[charts.shares("Time of the run", [_drawn(share) for share in time.shares])])
    )
    section.blocks.append(PageBlock(table=_table(time.shares, whole)))
    return section


def _drawn(share: Share) -> tuple[str, float, str]:
    name, _, colour = _ROWS[share.what]
    return name, share.seconds, colour


def _table(parts: list[Share], whole: float) -> Table:
    table = Table(["Part", ">Time", ">Share", "What"], shown=len(_ROWS))
    for share in parts:
        name, meaning, colour = _ROWS[share.what]
        part = share.seconds / whole
        cells = [Value(name, swatch=colour), seconds_cell(share.seconds), Value(human.percent(part), part)]
        table.rows.append([*cells, Value(meaning)])
    return table
