"""The section on memory and pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.report.core import axes, human
from otel_rl.report.core.blocks import PageBlock, Section
from otel_rl.report.core.cells import Table, Value, number_cell, seconds_cell
from otel_rl.report.subjects.memory import pressure

if TYPE_CHECKING:
    from otel_rl.report.core.charts import Charts, Drawing
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.subjects.memory.pressure import ProcessMetrics, Recompiled

_TIME = "time (s)"
#: Points of a curve.
_FEWEST = 3
#: Functions and reasons that are listed as compiled again.
_LISTED = 100


def build(collected: Collected, charts: Charts) -> Section:
    """Return memory over time, garbage collection per step, and what was compiled again."""
    section = Section("pressure", "Memory and pauses", "Every process that records tells them every 15 s.")
    section.blocks += memory(collected, charts, "Memory")
    drawings: list[Drawing] = []
    lines = collected.steps.collecting
    if any(line.total for line in lines.values()):
        hint = "seconds of a step for which the garbage collector stopped the rank; the others wait for it"
        drawings.append(charts.ranks("Garbage collection per step", hint, lines))
    if drawings:
        section.blocks.append(PageBlock(charts=drawings))
    table = _processes(collected)
    if table.rows:
        section.blocks.append(PageBlock(table=table))
    if recompiled := pressure.recompiled(collected):
        left_out = sum(group.number for group in recompiled[_LISTED:])
        note = f"{left_out} further recompilations are not listed." if left_out else ""
        section.blocks.append(PageBlock("Compiled again by torch.compile", note, _recompiled(recompiled[:_LISTED])))
    section.brief = "" if recompiled else _brief(pressure.processes(collected))
    return section


def _brief(processes: list[ProcessMetrics]) -> str:
    """Return the largest process and the longest pauses; nothing where memory ran out."""
    if not processes or any(process.kills for process in processes):
        return ""
    largest = max(processes, key=lambda process: process.peak)
    collecting = max(process.collecting for process in processes)
    at_most = f"{largest.who} took {human.size(largest.peak)} at most"
    pauses = f"; garbage collection stopped a process for {human.duration(collecting)}" if collecting else ""
    return f"{at_most}{pauses}"


def memory(collected: Collected, charts: Charts, title: str) -> list[PageBlock]:
    """Return the memory of the largest processes over time; nothing where no process has three points."""
    curves = pressure.memory(collected)
    if not any(len(curve.x) >= _FEWEST for curve in curves):
        return []
    hint = "physical memory; a line that rises from step to step is a leak"
    return [PageBlock(charts=[charts.curves(title, hint, curves, x_label=_TIME, quantity=axes.BYTES)])]


def _processes(collected: Collected) -> Table:
    table = Table(
        ["Process", ">Most memory", ">Limit", ">Kills", ">Garbage collection", ">Compiling", ">Compiled again"], shown=8
    )
    for process in pressure.processes(collected):
        limit = Value(human.UNKNOWN) if process.limit is None else Value(human.size(process.limit), process.limit)
        who = [Value(process.who), Value(human.size(process.peak), process.peak), limit, number_cell(process.kills)]
        sums = [seconds_cell(process.collecting), seconds_cell(process.compiling), number_cell(process.recompilations)]
        table.rows.append([*who, *sums])
    return table


def _recompiled(functions: list[Recompiled]) -> Table:
    table = Table(["Function", "Reason", ">Times", ">Took", ">First step", "Where"], shown=8)
    for function in functions:
        numbers = [number_cell(function.number), seconds_cell(function.seconds), number_cell(function.first)]
        table.rows.append(
            [Value(function.function), Value(function.reason), *numbers, Value(human.listed(sorted(function.who)))]
        )
    return table
