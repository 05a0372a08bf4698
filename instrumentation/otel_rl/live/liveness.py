"""The last sign of each process of a run, every second, without a rendering.

Of each process one asks whether it runs, and its ring for its heartbeat, its step and its phase: 0.3 ms. Only where a
step takes long, or a process is gone or stopped, the whole rings are read, for who waits for whom.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.core import settings
from otel_rl.flight_recorder import files, layout, reader
from otel_rl.flight_recorder.copies import COPY
from otel_rl.live import standstill
from otel_rl.live.standing import ProcessSign, ProcessState, Standing
from otel_rl.process import launch, lifetime
from otel_rl.ranks.postmortem import examine
from otel_rl.ranks.postmortem.chains import find_chains
from otel_rl.ranks.postmortem.rings import exits_of, waiting_calls
from otel_rl.semconv import attributes as names
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.processes import MANIFEST, Process, from_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.flight_recorder.reader import RingSnapshot
    from otel_rl.flight_recorder.waiting import WaitingCalls
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.ranks.postmortem import Postmortem
    from otel_rl.ranks.postmortem.chains import WaitChain

#: Seconds between two readings of the whole rings while all is well, and until they tell how long steps take.
_USUAL = 30.0
_AT_FIRST = 3.0
#: The readings of whole rings take at most this share of a core.
_SHARE = 0.02
#: Seconds, and usual steps, after which a step is looked at closely.
_LONG, _LONG_STEPS = 2.0, 1.5
#: Seconds without a heartbeat that are worth a close look.
_SILENT = 3.0
_NANOSECONDS = 1e9


class Liveness:
    """Of one run: what ``folder`` says of its processes, and the rings of ``run_id`` on this node.

    ``hang_seconds`` and ``ring_directory`` are those of the settings where they are not given.
    """

    def __init__(
        self,
        folder: Path,
        run_id: str | None,
        ring_directory: Path | None = None,
        hang_seconds: float | None = None,
    ) -> None:
        self._folder, self._run_id = folder, run_id
        self._rings = ring_directory or Path(settings.current().ring_directory).expanduser()
        self._manifests: dict[Path, tuple[tuple[int, int], Process]] = {}
        self._judge = standstill.StandstillJudge(
            settings.current().hang_seconds if hang_seconds is None else hang_seconds
        )
        self._next_reading = 0.0
        self._postmortem: Postmortem | None = None
        #: What waits for calls beyond their limits, as of the last reading of the rings.
        self._chains: list[WaitChain] = []
        self._knows_calls = False
        #: Gone at the look before: what a process writes last may come after its end was seen.
        self._was_gone: set[Lifetime | None] = set()
        self._had_failed: set[Lifetime | None] = set()

    def look(self) -> Standing:
        """Return what the processes do now, and what is wrong with it.

        Raises:
            OSError: the folder of the run cannot be read.
        """
        signs = self._signs()
        gone = {sign.lifetime for sign in signs if sign.state is ProcessState.GONE}
        newly_gone, self._was_gone = gone - self._was_gone, gone
        failed = {sign.lifetime for sign in signs if standstill.has_failed(sign)}
        newly_failed, self._had_failed = failed - self._had_failed, failed
        for sign in signs:
            if sign.lifetime in newly_gone:
                sign.state = ProcessState.UNKNOWN
        lists = [
            one
            for one in waiting_calls(self._folder, self._rings, self._run_id or "")
            if lifetime.is_alive(one.lifetime)
        ]
        calls = {call.key for one in lists for call in one.calls if call.hangs}
        self._read_rings(signs, lists if calls else [])
        exits = exits_of(self._folder, self._rings) if gone else {}
        # What was gone first is known with the next look: another one may have gone while this one was made.
        runs_on = any(sign.state is ProcessState.RUNNING for sign in signs)
        deaths = [] if newly_gone or (newly_failed and runs_on) else standstill.deaths(signs, exits)
        # One that has returned since the rings were read hangs no more.
        hanging = [chain for chain in self._chains if any(link.call.key in calls for link in chain.links)]
        findings = self._judge.findings(signs, self._postmortem, deaths, hanging)
        return Standing(signs, sorted(findings, key=lambda finding: finding.severity.order))

    @property
    def usual_step(self) -> float | None:
        """Seconds that a step takes, where some have ended."""
        return self._judge.usual_step

    # -- signs -----------------------------------------------------------------------------------------------------

    def _signs(self) -> list[ProcessSign]:
        folders = self._process_folders()
        processes = {folder: self._process(folder) for folder in folders}
        rings = {ring.lifetime: ring for ring in self._read_current(folders)}
        by_lifetime = {process.lifetime: folder for folder, process in processes.items() if process.lifetime}
        attempts = [process.attempt for process in processes.values()]
        attempts += [launch.parse_attempt(ring.attempt) for ring in rings.values()]
        newest = max((attempt[:2] for attempt in attempts), default=())
        # Under a given run id a launch is a restart of what has the same place in the job, and does not run any more.
        launches: dict[tuple[object, ...], tuple[int, ...]] = {}
        for process in processes.values():
            launches[_place(process)] = max(launches.get(_place(process), ()), process.attempt)
        signs = []
        for folder, process in processes.items():
            if process.attempt[:2] in (newest, ()):
                sign = _sign(process, rings.get(process.lifetime) if process.lifetime else None, folder)
                if sign.is_alive or process.attempt == launches[_place(process)]:
                    signs.append(sign)
        for key, ring in rings.items():
            if key not in by_lifetime and launch.parse_attempt(ring.attempt)[:2] == newest:
                signs.append(_sign(None, ring, None))
        return sorted(signs, key=lambda sign: (sign.rank is None, sign.rank or 0, sign.pid or 0))

    def _process_folders(self) -> list[Path]:
        with os.scandir(self._folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
        return [self._folder / name for name in sorted(names) if (self._folder / name / MANIFEST).exists()]

    def _process(self, folder: Path) -> Process:
        """Return the process of a folder; its manifest is read again where it has been replaced."""
        try:
            what = (folder / MANIFEST).stat()
        except OSError:
            return from_folder(folder)
        stamp = what.st_mtime_ns, what.st_ino
        known = self._manifests.get(folder)
        if known is None or known[0] != stamp:
            known = self._manifests[folder] = stamp, from_folder(folder)
        return known[1]

    def _read_current(self, folders: Iterable[Path]) -> list[RingSnapshot]:
        """Read the rings on this node, and the copies of those that are not there any more."""
        owners = {os.geteuid(), self._folder.stat().st_uid}
        pattern = f"{files.prefix(self._run_id)}*{layout.SUFFIX}"
        paths = [folder / COPY for folder in folders]
        paths += sorted(self._rings.glob(pattern)) if self._run_id is not None else []
        rings = []
        for path in paths:
            with suppress(reader.UnreadableRing):
                rings.append(reader.read_current(path, owners))
        named = reader.header_text(self._run_id or "")
        # The live ring comes after its copy.
        return [ring for ring in rings if ring.run_id == named]

    # -- whole rings -----------------------------------------------------------------------------------------------

    def _read_rings(self, signs: list[ProcessSign], hanging: list[WaitingCalls]) -> None:
        now = time.monotonic()
        is_suspect = bool(hanging) or any(self._is_suspect(sign) for sign in signs)
        is_new = not self._knows_calls if hanging else is_suspect and self._postmortem is None
        self._knows_calls = bool(hanging)
        if now < self._next_reading and not is_new:
            return
        if not is_suspect:
            self._postmortem, self._chains = None, []
        if not any(sign.is_alive for sign in signs):
            return
        began = time.process_time()
        with suppress(UnusableInput, OSError):
            postmortem = examine(self._folder, self._rings)
            self._judge.learn(postmortem)
            self._postmortem = postmortem if is_suspect else None
        if hanging:
            # Processes without steps have no ring.
            states = self._postmortem.ranks if self._postmortem is not None else []
            self._chains = find_chains(states, hanging)
        spent = time.process_time() - began
        pause = 0.0 if is_suspect else _USUAL if self.usual_step is not None else _AT_FIRST
        self._next_reading = now + max(spent / _SHARE, pause)

    def _is_suspect(self, sign: ProcessSign) -> bool:
        if sign.state in (ProcessState.GONE, ProcessState.STOPPED):
            return True
        if not sign.is_alive or sign.step is None:
            return False
        long = max(_LONG, _LONG_STEPS * (self.usual_step or 0.0))
        return (sign.still or 0.0) > long or (sign.silent or 0.0) > _SILENT


def _place(process: Process) -> tuple[object, ...]:
    return process.rank, process.identity(names.RL_ROLE), (process.manifest or {}).get("command")


def _sign(process: Process | None, ring: RingSnapshot | None, folder: Path | None) -> ProcessSign:
    """Put together what the manifest and the ring of one process say."""
    own = process.lifetime if process is not None else ring.lifetime if ring is not None else None
    sign = ProcessSign(
        label=process.label if process is not None else _label(ring),
        rank=process.rank if process is not None else ring.rank if ring is not None else None,
        host=str((process.manifest or {}).get("host") or "") if process is not None else ring.host if ring else "",
        pid=own.pid if own is not None else process.number("pid") if process is not None else None,
        state=_state(process, ring, own),
        cause=_cause(process, ring),
        ended=(process.number("ended_unix_nano") or 0) if process is not None else 0,
        lifetime=own,
    )
    if ring is not None:
        sign.step = ring.last_step[0] if ring.last_step[1] else None
        inside = [event for event in ring.open if event.kind in (layout.PHASE, layout.PART)]
        sign.phase = " > ".join(one.name if one.kind == layout.PHASE else one.part_words for one in inside)
        part = ring.part()
        sign.part, sign.part_seconds = (part.words, part.seconds) if part is not None else ("", 0.0)
    sign.silent, sign.still = _since(ring, folder)
    if ring is not None and sign.step is None and not ring.heartbeat and sign.is_alive:
        # Before the first step no thread of ours needs to run.
        sign.silent = None
    return sign


def _label(ring: RingSnapshot | None) -> str:
    if ring is None:
        return "process"
    return f"rank {ring.rank}" if ring.rank is not None else f"process {ring.lifetime.pid}"


def _state(process: Process | None, ring: RingSnapshot | None, own: Lifetime | None) -> ProcessState:
    if (process is not None and process.number("ended_unix_nano")) or (ring is not None and ring.ended):
        return ProcessState.ENDED
    is_alive = lifetime.is_alive(own) if own is not None else None
    if is_alive is None:
        return ProcessState.UNKNOWN
    if is_alive:
        return ProcessState.STOPPED if own is not None and lifetime.is_stopped(own) else ProcessState.RUNNING
    return ProcessState.GONE


def _cause(process: Process | None, ring: RingSnapshot | None) -> str:
    reason = (process.manifest or {}).get("exit_reason") if process is not None else None
    return str(reason or (ring.end_reason if ring is not None else ""))


def _since(ring: RingSnapshot | None, folder: Path | None) -> tuple[float | None, float | None]:
    """Return the seconds since the last sign, and since the last begin of a step or phase."""
    if ring is not None and ring.path.name != COPY:
        now = time.monotonic_ns()
        latest = max((event.moment for event in ring.open), default=0)
        progress = max(latest, ring.last_step[1], ring.made)
        return (now - max(ring.heartbeat, progress)) / _NANOSECONDS, (now - progress) / _NANOSECONDS
    if folder is None:
        return None, None
    written = [path.stat().st_mtime for path in _files(folder)]
    return (max(time.time() - max(written), 0.0) if written else None), None


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in folder.iterdir() if path.is_file()]
    return []
