"""``summary.json`` of a run: what lists and comparisons of runs need of its report.

    run_summary.write(collected, overview)

The keys stand in docs/runs.md; :mod:`otel_rl.store.reader.run_summaries` reads the file.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.finding import Severity
from otel_rl.report.core.steps import counted
from otel_rl.report.core.summary import first_value, summarise
from otel_rl.report.subjects.configuration.settings import by_source
from otel_rl.report.subjects.endings import process_end, result
from otel_rl.report.subjects.run_time import program
from otel_rl.semconv import attributes as names
from otel_rl.store.reader import run_records, run_summaries
from otel_rl.store.reader.end_states import GRAVEST_FIRST, EndState

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.report.core.collected import Collected
    from otel_rl.report.core.finding import Overview
    from otel_rl.report.core.steps import Steps
    from otel_rl.report.core.summary import Summary
    from otel_rl.report.subjects.endings.process_end import ProcessEnd
    from otel_rl.store.reader import Process

#: Characters of a text, and hosts and libraries that are named.
_TEXT, _NAMED = 500, 64
_DIGITS = 16
_ENDED = "ended"


def write(collected: Collected, overview: Overview) -> str:
    """Write ``summary.json`` into the folder of the run; why that failed, ``""`` where it is written.

    A collector's files have no folder of one run, so they get none.
    """
    folder = _folder(collected)
    if folder is None:
        return ""
    try:
        run_summaries.write(folder, summary(collected, overview))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return f"{folder / run_summaries.NAME} cannot be written ({reason}); `otel-rl runs` reads the files instead"
    return ""


def _folder(collected: Collected) -> Path | None:
    """Return the folder with the processes' folders; None where one process, or a collector's files, were read."""
    source = collected.reader.source
    is_run = bool(source.processes) and all((source.path / process.key).is_dir() for process in source.processes)
    return source.path if is_run else None


def summary(collected: Collected, overview: Overview) -> dict[str, Any]:
    """Return the content of ``summary.json``: what run it is, how it ended, what it came to, what was found."""
    known = summarise(collected)
    ends = process_end.ends(collected)
    return {
        "run": _run(collected, known),
        "end": _end(collected, known, ends, overview),
        "steps": _steps(collected, ends),
        "result": _result(collected),
        "findings": _findings(overview),
    }


def _run(collected: Collected, known: Summary) -> dict[str, Any]:
    processes = collected.reader.processes
    command = next((process.manifest.get("command") for process in processes if process.manifest), None)
    hosts = sorted({str(host) for process in processes if (host := process.identity(names.HOST_NAME))})
    return {
        "id": _text(known.run_id),
        "attempt": _text(known.attempt),
        "program": _text(program.command(collected) or command or known.service),
        "system": _text(first_value(processes, names.RL_SYSTEM_NAME)),
        "algorithm": _text(first_value(processes, names.RL_ALGORITHM)),
        "world_size": known.world_size,
        "processes": len(processes),
        "hosts": [_text(host) for host in hosts[:_NAMED]],
        "versions": {_text(name): _text(version) for name, version in known.versions[:_NAMED]},
        "settings_hash": _settings_hash(collected),
    }


def _settings_hash(collected: Collected) -> str | None:
    """Return a hash that two runs with equal settings share; None where none were recorded."""
    settings = by_source(collected)
    if not settings:
        return None
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]


def _end(collected: Collected, known: Summary, ends: list[ProcessEnd], overview: Overview) -> dict[str, Any]:
    states = {end.state for end in ends}
    bad = process_end.first_bad(ends)
    is_open = any(state.is_open for state in states)
    return {
        "state": next((state.value for state in GRAVEST_FIRST if state in states), EndState.NOT_RECORDED.value),
        "is_final": not is_open,
        "started_unix_nano": known.start,
        "latest_start_unix_nano": max(map(_start, collected.reader.processes), default=0),
        "ended_unix_nano": None if is_open else known.end,
        "last_sign_unix_nano": known.end,
        "seconds": known.seconds,
        "failed_unix_nano": None if bad is None else bad.time,
        "failure": None if bad is None else _failure(bad, overview),
    }


def _failure(first: ProcessEnd, overview: Overview) -> str:
    """Return the headline of the report on how the run ended."""
    # It is below the cause where that is known, as a call that hung.
    headline = next((one for one in overview.findings if any(part.code == _ENDED for part in one.chain())), None)
    if headline is not None and headline.severity is not Severity.NOTICE:
        return headline.text[:_TEXT]
    return f"{first.process.label} {first.words}"[:_TEXT]


def _start(process: Process) -> int:
    return process.number("started_unix_nano") or process.first


def _steps(collected: Collected, ends: list[ProcessEnd]) -> dict[str, Any]:
    steps = collected.steps
    # Of a process that was killed the ring knows steps of which no record was written.
    reached = [end.iteration for end in ends if end.is_vanished and end.iteration is not None]
    lengths = steps.lengths.cell
    return {
        "number": counted(steps, collected.totals),
        "last": max([*reached, *([] if steps.last_iteration is None else [steps.last_iteration])], default=None)
        or _last_logged(collected),
        "mean_seconds": run_records.json_value(lengths.mean) if lengths.count else None,
        "last_seconds": run_records.json_value(_last_length(steps)),
    }


def _last_logged(collected: Collected) -> int | None:
    """Return the last step of which a value is known, of a run without steps of its own."""
    return max((value.last_step for value in result.values(collected) if value.last_step is not None), default=None)


def _last_length(steps: Steps) -> float | None:
    """Return the length of the last step, the mean of its ranks; of a long run that of the last few steps."""
    ends = [(line.x[-1], line.means[-1]) for line in steps.by_rank.values()]
    last = max((step for step, _ in ends), default=None)
    means = [mean for step, mean in ends if step == last]
    return sum(means) / len(means) if means else None


def _result(collected: Collected) -> dict[str, Any]:
    values = result.values(collected)
    reward, loss = run_records.reward_of(values), run_records.loss_of(values)
    return {
        "reward": None if reward is None else run_records.as_json(reward),
        "loss": None if loss is None else run_records.as_json(loss),
    }


def _findings(overview: Overview) -> dict[str, Any]:
    worst = min(overview.findings, key=lambda finding: finding.gravest.order, default=None)
    numbers = Counter(finding.gravest.value for finding in overview.findings)
    return {
        "worst": None
        if worst is None
        else {"severity": worst.gravest.value, "code": worst.code, "title": _text(worst.text)},
        "counts": {severity.value: numbers[severity.value] for severity in Severity},
    }


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)[:_TEXT]
