"""The one line on stderr at the end: what was recorded and how to see it, or what was lost and what to do."""

# ruff: noqa: PTH109, PTH118 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from otel_rl import instrumentor_status, settings, stderr
from otel_rl.pipeline import exporter_selection, sdk_logging
from otel_rl.process import process_identity
from otel_rl.telemetry import drops

if TYPE_CHECKING:
    from otel_rl.pipeline.providers import Telemetry

_WORDS = {
    "traces": ("span", "spans"),
    "logs": ("log record", "log records"),
    "metrics": ("metric point", "metric points"),
}


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


_started_in = _working_directory()


def write(telemetry: Telemetry) -> None:
    """Say what was lost, from any process; else what was recorded, from the leading one unless told to be quiet."""
    lost = _lost(telemetry)
    if lost:
        stderr.write_line(_lost_line(telemetry, lost))
        return
    who = process_identity.current()
    if settings.current().quiet or not who.leads or who.rank not in (0, None):
        return
    recorded = _delivered(telemetry)
    if recorded["traces"] or recorded["logs"]:
        stderr.write_line(
            f"otel-rl: recorded {_in_words(recorded)}{_of_rank(who)}{_overflow()}; {_where(telemetry)}{_degraded()}"
        )
    elif any(recorded.values()) or _patched_something():
        stderr.write_line(
            "otel-rl: no span was recorded: the program used no supported trainer, model client or agent library;"
            " `otel-rl doctor` lists them, and otel_rl.step() and otel_rl.rollout() mark a loop of your own"
        )


def _of_rank(who: process_identity.Run) -> str:
    return f" on rank 0 of {who.world_size}" if who.rank == 0 and (who.world_size or 1) > 1 else ""


def _overflow() -> str:
    """What a full queue did not take: the program recorded faster than could be sent or written."""
    counts = {signal: drops.snapshot().get((signal, "queue_full"), 0) for signal in exporter_selection.SIGNALS}
    if not any(counts.values()):
        return ""
    return f", dropped {_in_words(counts)} (queue full: raise OTEL_BSP_MAX_QUEUE_SIZE or OTEL_BLRP_MAX_QUEUE_SIZE)"


def _degraded() -> str:
    """The libraries of which only a part is recorded, and why."""
    reasons = [
        f"{name} is degraded ({outcome['reason']})"
        for name, outcome in instrumentor_status.snapshot().items()
        if outcome["state"] == instrumentor_status.DEGRADED
    ]
    return "".join(f"; {reason}" for reason in reasons)


def _patched_something() -> bool:
    """Some library of ours was imported: the user had reason to expect something."""
    return any(
        outcome["state"] in (instrumentor_status.ACTIVE, instrumentor_status.DEGRADED) and name.startswith("otel_rl_")
        for name, outcome in instrumentor_status.snapshot().items()
    )


def _delivered(telemetry: Telemetry) -> dict[str, int]:
    counts = dict.fromkeys(exporter_selection.SIGNALS, 0)
    for part in telemetry.parts:
        counts[part.signal] += part.delivered
    return counts


def _lost(telemetry: Telemetry) -> dict[str, int]:
    """What did not reach an exporter that sends; the file store says for itself what it cannot write."""
    counts = dict.fromkeys(exporter_selection.SIGNALS, 0)
    for part in telemetry.parts:
        if not part.sender_counts_drops:
            counts[part.signal] += part.lost
    return counts if any(counts.values()) else {}


def _lost_line(telemetry: Telemetry, lost: dict[str, int]) -> str:
    where = sorted(
        {
            exporter_selection.destination(os.environ, signal, name)
            for signal, number in lost.items()
            if number
            for name in telemetry.plan.exporters[signal]
            if name != exporter_selection.FILE
        }
    )
    who = process_identity.current()
    prefix = f"otel-rl (rank {who.rank})" if who.rank is not None and (who.world_size or 1) > 1 else "otel-rl"
    reason = f" ({sdk_logging.last_error.reason})" if sdk_logging.last_error.reason else ""
    return (
        f"{prefix}: {_in_words(lost)} could not be delivered to {', '.join(where)}{reason};"
        " check that a collector answers there, or unset OTEL_EXPORTER_OTLP_ENDPOINT to write files"
    )


def _in_words(counts: dict[str, int]) -> str:
    parts = [f"{number} {_WORDS[signal][number != 1]}" for signal, number in counts.items() if number]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _where(telemetry: Telemetry) -> str:
    files = telemetry.store.files.directory
    sent = sorted(
        {
            exporter_selection.destination(os.environ, signal, name)
            for signal, names in telemetry.plan.exporters.items()
            for name in names
            if name != exporter_selection.FILE
        }
    )
    parts = [f"sent to {', '.join(sent)}"] if sent else []
    if files is not None:
        parts.append(f"show it with: otel-rl report {shlex.quote(_shown(str(files.parent)))}")
    return "; ".join(parts)


def _shown(path: str) -> str:
    """Relative to where the program was started, which is where the user's shell is."""
    relative = os.path.relpath(path, _started_in)
    return path if relative.startswith("..") else os.path.join(".", relative)
