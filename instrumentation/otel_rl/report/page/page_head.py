"""The head of the page: identity of the run, and first numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.core.steps import counted
from otel_rl.report.core.summary import first_value, summarise
from otel_rl.report.page import cards
from otel_rl.report.page.cards import Tile
from otel_rl.report.subjects.configuration.settings import by_source
from otel_rl.report.subjects.endings import process_end, result
from otel_rl.report.subjects.errors import groups as errors
from otel_rl.report.subjects.run_time import finding as run_time
from otel_rl.report.subjects.run_time import program
from otel_rl.report.subjects.telemetry.aggregate import own_cost
from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlLauncherValues
from otel_rl.store.reader import run_records
from otel_rl.store.reader.end_states import GRAVEST_FIRST

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.summary import Summary
    from otel_rl.store.reader import Process


def facts(collected: Collected, summary: Summary) -> list[tuple[str, str]]:
    """Return the identity of the run: (name, value), without what is not known."""
    processes = collected.reader.processes
    hosts = sorted({str(host) for process in processes if (host := process.identity(names.HOST_NAME))})
    command = next((process.manifest.get("command") for process in processes if process.manifest), None)
    entries: list[tuple[str, Any]] = [
        ("Run", summary.run_id),
        ("Attempt", summary.attempt or None),
        ("Program", program.command(collected) or command),
        ("System", first_value(processes, names.RL_SYSTEM_NAME)),
        ("Algorithm", first_value(processes, names.RL_ALGORITHM)),
        ("Launcher", _launcher(processes)),
        ("Job", first_value(processes, names.RL_JOB_ID)),
        ("Imported from", summary.imported_from and f"{summary.imported_from}; its times are not recorded"),
        ("Started", human.moment(summary.start)),
        ("Ended", _ended(collected)),
        ("Length", human.duration(_length(collected, summary))),
        ("End", _end(collected)),
        ("Result", result.words(collected)),
        ("Ranks", _ranks(summary)),
        ("Hosts", human.listed(hosts)),
        *program.facts(collected),
    ]
    return [(name, str(value)) for name, value in entries if value not in (None, "", human.UNKNOWN)]


def as_json(collected: Collected) -> dict[str, Any]:
    """Return for programs what run it is, how it ended, what it came to and its settings by source."""
    summary = summarise(collected)
    states = {end.state for end in process_end.ends(collected)}
    return {
        "id": summary.run_id,
        "attempt": summary.attempt or None,
        "end": next((state.value for state in GRAVEST_FIRST if state in states), None),
        "result": [run_records.as_json(value) for value in result.values(collected)],
        "configuration": {
            source: {name: run_records.json_value(value) for name, value in settings.items()}
            for source, settings in by_source(collected).items()
        },
    }


def _length(collected: Collected, summary: Summary) -> float | None:
    """Return seconds from the first record to the last; of a process whose creation is known, from there."""
    whole = sum(run_time.grouped(collected).values())
    return max(whole, summary.seconds or 0.0) or summary.seconds


def _end(collected: Collected) -> str:
    """Return how the processes ended: ``running``, ``failed (1 of 2 processes)``; the gravest first."""
    states = [end.state for end in process_end.ends(collected)]
    parts = []
    for state in GRAVEST_FIRST:
        number = states.count(state)
        if number:
            parts.append(
                state.value if number == len(states) else f"{state.value} ({number} of {len(states)} processes)"
            )
    return ", ".join(parts)


def _ended(collected: Collected) -> str | None:
    """Return when the last process ended, or was last heard of; None while one may run."""
    ends = process_end.ends(collected)
    if not ends or any(end.state.is_open for end in ends):
        return None
    last = max(end.time for end in ends)
    return human.moment(last) if last else None


def _launcher(processes: list[Process]) -> str | None:
    launcher = first_value(processes, names.RL_LAUNCHER)
    return None if launcher == RlLauncherValues.NONE else launcher


def _ranks(summary: Summary) -> str:
    if summary.world_size is None:
        return f"{len(summary.reported)}, world size unknown" if summary.reported else ""
    return f"{len(summary.reported)} of {summary.world_size} reported"


def tiles(collected: Collected, summary: Summary) -> list[Tile]:
    """Return the few numbers to see first."""
    steps = collected.steps
    entries: list[Tile | tuple[str, str, str]] = [
        ("Length", human.duration(_length(collected, summary)), human.moment(summary.start))
    ]
    count = counted(steps, collected.totals)
    if count:
        length = steps.lengths
        shown = f"median {human.duration(length.quantile(0.5))}, p95 {human.duration(length.quantile(0.95))}"
        some = f" of {human.number(steps.loops)} with spans" if 0 < steps.loops < count else ""
        entries.append(("Steps", human.number(count), f"{shown}{some}" if length.cell.count else ""))
    entries += cards.of_training(collected)
    entries.append(cards.tokens(collected, summary.seconds))
    entries += cards.of_calls(collected)
    entries.append(run_time.card(collected))
    if not summary.imported_from:
        number = errors.number(collected)
        entries.append(("Errors", human.short_number(number), _errors(collected, number)))
    return [Tile(*tile) for tile in entries if tile[1] not in ("", human.UNKNOWN)]


def _errors(collected: Collected, number: int) -> str:
    uncaught = errors.number_uncaught(collected)
    others = number - uncaught
    parts = [human.amount(uncaught, "uncaught exception")] if uncaught else []
    parts += [human.amount(others, "failed span or log record", "failed spans and log records")] if others else []
    return ", ".join(parts) or "none recorded"


def own_share(collected: Collected) -> str:
    """Return one sentence on the cost of otel-rl itself, ``""`` where it is not known."""
    cost, length = own_cost(collected), collected.steps.lengths.cell.mean
    if cost is None or not length:
        return ""
    return (
        f"otel-rl used {human.duration(cost.own)} of CPU per step, {human.percent(cost.own / length)} of its"
        f" {human.duration(length)}; the whole process used {human.duration(cost.whole)}."
    )
