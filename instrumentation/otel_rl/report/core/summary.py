"""The identity of the run: its ids, versions and times, and the ranks that reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_rl.report.core.loops import written
from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlRoleValues as Role
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from otel_rl.report.core.collected import Collected
    from otel_rl.store.reader import Process


@dataclass(slots=True)
class Summary:
    """Identity of the run and its ranks; times in ns since the epoch."""

    run_id: str
    service: str
    #: Of the latest start, as ``rl.run.attempt`` has it, e.g. ``1.0.2``; empty for the first.
    attempt: str
    versions: list[tuple[str, str]] = field(default_factory=list)
    start: int = 0
    end: int = 0
    world_size: int | None = None
    reported: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    #: What it was imported from, in words; such a run has no start that is known.
    imported_from: str = ""

    @property
    def seconds(self) -> float | None:
        """Length of the run."""
        return (self.end - self.start) / 1e9 if self.start and self.end > self.start else None


def summarise(collected: Collected) -> Summary:
    """Put together what manifests and resources say; a restarted run is judged by its latest attempt."""
    processes = collected.reader.processes
    latest = [process for process in processes if process.attempt not in collected.superseded]
    # Of a server beside the training the attempt is the moment of its own start.
    attempt = collected.loops.shown.attempt
    if not attempt or attempt not in {written(process.attempt) for process in latest}:
        attempt = written(max((process.attempt for process in latest), default=()))
    summary = Summary(
        run_id=str(collected.reader.source.run_id or collected.reader.source.path.name),
        service=str(first_value(processes, names.SERVICE_NAME) or "run"),
        attempt=attempt if attempt.strip("0.") else "",
        start=min((start for process in processes if (start := _start(process))), default=0),
        end=max((process.number("ended_unix_nano") or process.last for process in processes), default=0),
    )
    summary.imported_from = next((process.imported_from for process in processes if process.imported_from), "")
    sizes = [size for process in latest if (size := int_or_none(process.identity(names.RL_WORLD_SIZE))) is not None]
    summary.world_size = max(sizes, default=None)
    summary.reported = sorted({process.rank for process in latest if process.rank is not None})
    summary.missing = sorted(set(range(summary.world_size or 0)) - set(summary.reported))
    summary.versions = _versions(processes)
    return summary


def _versions(processes: list[Process]) -> list[tuple[str, str]]:
    versions: dict[str, set[str]] = {}
    for process in processes:
        for name, version in process.mapping("versions").items():
            versions.setdefault(str(name), set()).add(str(version))
        for name, key in ((names.TELEMETRY_DISTRO_NAME, names.TELEMETRY_DISTRO_VERSION),):
            if process.manifest is None and process.resource.get(name):
                versions.setdefault(str(process.resource[name]), set()).add(str(process.resource.get(key, "")))
    return [(name, ", ".join(sorted(different))) for name, different in sorted(versions.items())]


def first_value(processes: list[Process], attribute: str) -> Any:
    """Return the first value of a resource attribute that a process knows, or None."""
    # The launcher reports little of itself: prefer what the others say.
    ordered = sorted(processes, key=lambda process: process.identity(names.RL_ROLE) == Role.LAUNCHER)
    return next((value for process in ordered if (value := process.identity(attribute)) is not None), None)


def _start(process: Process) -> int:
    return 0 if process.imported_from else process.number("started_unix_nano") or process.first
