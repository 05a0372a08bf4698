"""One line of a list of runs, from a summary, from the folders of its processes, or from a collector's files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_rl.semconv import attributes as names
from otel_rl.semconv.attributes import RlLauncherValues as Launcher
from otel_rl.semconv.attributes import RlRoleValues as Role
from otel_rl.store.reader import end_states, process_folders, run_records
from otel_rl.store.reader.collector_tails import runs_of_output
from otel_rl.store.reader.end_states import GRAVEST_FIRST, EndState
from otel_rl.store.reader.otlp_values import float_or_none, int_or_none, integer, list_of, mapping_of, number
from otel_rl.store.reader.run_records import LoggedValue
from otel_rl.store.writer.manifest import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from otel_rl.process.exit_records import Exit
    from otel_rl.process.lifetime import Lifetime
    from otel_rl.store.reader.process_folders import FoundEnd, ProcessFolder
    from otel_rl.store.reader.run_summaries import RunSummary

#: Processes of which the ends of files are read for values, and for what they died of.
_TAILS, _ASKED = 4, 16
#: Hosts that are named, and characters of a text.
_HOSTS, _TEXT = 16, 500
_CRITICAL, _WARNING = "critical", "warning"
#: In front of the name of a rule, ``P7_slow_step``.
_NUMBER = re.compile(r"P\d+_")
#: Nanoseconds between the last records of processes that may have ended together: several intervals of export.
_TOGETHER = 60_000_000_000
_SEVERITIES = {2: _CRITICAL, 1: _WARNING}


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. Times are ns since the epoch, 0 where not known; texts are as the program gave them, and not escaped."""

    id: str
    path: Path
    #: As the report has it: ``running``, ``failed``, ``gone``; of several processes the gravest.
    state: str
    #: What could not be read, or is not known, in words.
    remark: str = ""
    attempt: str = ""
    program: str = ""
    system: str = ""
    algorithm: str = ""
    started: int = 0
    #: Start of the process that began last: lists are in this order.
    latest_start: int = 0
    last_sign: int = 0
    #: 0 while it runs, or where its end is not known.
    ended: int = 0
    #: Number of the last step, and how many steps were made.
    step: int | None = None
    steps: int | None = None
    reward: LoggedValue | None = None
    loss: LoggedValue | None = None
    #: Of the worst finding: ``critical``, ``warning``, ``notice``, ``""`` without one; its code, and its text.
    severity: str = ""
    code: str = ""
    finding: str = ""
    #: True where the run has gone on since its findings were made.
    is_outdated: bool = False
    #: When the first process failed, was killed or was seen last, and what it died of.
    failed: int = 0
    failure: str = ""
    #: The part of the run that it is in, or was in when it was stopped: ``in init_process_group for 90 s``.
    doing: str = ""
    world_size: int | None = None
    processes: int = 0
    hosts: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Seconds from its start to its end, or to its last sign."""
        end = self.ended or self.last_sign
        return (end - self.started) / 1e9 if self.started and end > self.started else None

    @property
    def shown(self) -> LoggedValue | None:
        """The reward, or the loss of a run without one."""
        return self.reward if self.reward is not None else self.loss

    @property
    def other_step(self) -> int | None:
        """The step of the reward, or loss, where that is not the last one."""
        step = self.shown.last_step if self.shown is not None else None
        return None if step == self.step else step

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        content = {name: getattr(self, name) for name in self.__slots__}
        content |= {name: content[name] and run_records.as_json(content[name]) for name in ("reward", "loss")}
        return {**content, "path": str(self.path), "hosts": list(self.hosts), "seconds": self.seconds}


def refused(path: Path, remark: str) -> RunRow:
    """Return the row of a folder that cannot be read."""
    return RunRow(path.name, path, EndState.NOT_KNOWN.value, remark, latest_start=process_folders.modified(path))


# -- from a summary ------------------------------------------------------------------------------------------------


def of_summary(path: Path, summary: RunSummary) -> RunRow:
    """Return the row of a run that has ended, as its summary has it."""
    run, end = summary.part("run"), summary.part("end")
    return RunRow(
        _text(run.get("id")) or path.name,
        path,
        _text(end.get("state")),
        attempt=_text(run.get("attempt")),
        program=_text(run.get("program")),
        system=_text(run.get("system")),
        algorithm=_text(run.get("algorithm")),
        started=integer(end.get("started_unix_nano")),
        latest_start=integer(end.get("latest_start_unix_nano")),
        last_sign=integer(end.get("last_sign_unix_nano")),
        ended=integer(end.get("ended_unix_nano")),
        failed=integer(end.get("failed_unix_nano")),
        failure=_text(end.get("failure")),
        world_size=int_or_none(run.get("world_size")),
        processes=summary.processes,
        hosts=tuple(map(_text, list_of(run, "hosts")[:_HOSTS])),
        **_values_of(summary),
        **_worst_of(summary),
    )


def _values_of(summary: RunSummary) -> dict[str, Any]:
    steps, result = summary.part("steps"), summary.part("result")
    return {
        "step": int_or_none(steps.get("last")),
        "steps": int_or_none(steps.get("number")),
        "reward": _logged(mapping_of(result, "reward")),
        "loss": _logged(mapping_of(result, "loss")),
    }


def _worst_of(summary: RunSummary) -> dict[str, Any]:
    worst = mapping_of(summary.part("findings"), "worst")
    return {
        "severity": _text(worst.get("severity")),
        "code": _text(worst.get("code")),
        "finding": _text(worst.get("title")),
    }


def _logged(value: dict[str, Any]) -> LoggedValue | None:
    if not value:
        return None
    last, best = (None if value.get(key) is None else number(value[key]) for key in ("last", "best"))
    steps = int_or_none(value.get("last_step")), int_or_none(value.get("best_step"))
    return LoggedValue(_text(value.get("key")), last, steps[0], best, steps[1])


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:_TEXT]


# -- from the folders of its processes -----------------------------------------------------------------------------


def of_processes(
    path: Path,
    folders: list[ProcessFolder],
    summary: RunSummary | None,
    exits: Mapping[Lifetime, Exit],
    remarks: Iterable[str] = (),
) -> RunRow:
    """Return the row of a run: its state from the manifests, what it came to from a summary or the ends of files."""
    latest = sorted(_of_latest_attempt(folders), key=_leading_first)
    ends = _ends(latest, exits)
    state = next(state for state in GRAVEST_FIRST if any(end.state is state for _, end in ends))
    last_sign = max(folder.last_sign for folder in folders)
    bad = _first_bad(ends)
    is_current = summary is not None and summary.is_current(last_sign)
    values = _values_of(summary) if summary is not None and is_current else _from_tails(latest)
    return RunRow(
        _text(_first(folders, "run_id")) or path.name,
        path,
        state.value,
        "; ".join([*_unusual(folders), *remarks]),
        attempt=_text(_first(latest, "attempt")),
        program=_program(latest),
        **_names(latest, summary),
        started=min((folder.started for folder in folders if folder.started), default=0),
        latest_start=max(folder.started for folder in folders) or last_sign,
        last_sign=last_sign,
        ended=0 if any(end.state.is_open for _, end in ends) else last_sign,
        **values,
        **_worst(latest, summary, bad),
        is_outdated=summary is not None and not is_current,
        failed=bad[1].time if bad is not None else 0,
        failure=_text(_sentence(*bad)) if bad is not None else "",
        doing=_text(process_folders.doing(ends[:_TAILS])),
        world_size=max((size for folder in latest if (size := folder.process.number("world_size"))), default=None),
        processes=len(folders),
        hosts=tuple(sorted({_text(host) for folder in folders if (host := folder.value("host"))})[:_HOSTS]),
    )


def _ends(folders: list[ProcessFolder], exits: Mapping[Lifetime, Exit]) -> list[tuple[ProcessFolder, FoundEnd]]:
    """Return how the processes ended; of many that failed only the first ones are asked what they died of."""
    ends: list[tuple[ProcessFolder, FoundEnd]] = []
    asked = 0
    for folder in folders:
        end = folder.end(_seen(folder, exits), asks=asked < _ASKED)
        asked += end.state not in (EndState.IN_ORDER, EndState.RUNNING)
        ends.append((folder, end))
    well = {(str(folder.value("host")), folder.process.number("pid") or 0) for folder, end in ends if end.state.is_well}
    return [(folder, _unless_survived(folder, end, _seen(folder, exits), well)) for folder, end in ends]


def _unless_survived(folder: ProcessFolder, end: FoundEnd, seen: Exit | None, well: set[tuple[str, int]]) -> FoundEnd:
    if not end_states.survived(folder.process, seen, end.state, well):
        return end
    return end._replace(state=EndState.IN_ORDER, words=end.words + end_states.SURVIVED)


def _first_bad(ends: list[tuple[ProcessFolder, FoundEnd]]) -> tuple[ProcessFolder, FoundEnd] | None:
    """Return the first that failed; of a job that was killed as a whole the process that had started the others.

    Of what is gone without an end nobody knows when it ended: a worker of a pool just made its last record earlier.
    """
    bad = [found for found in ends if found[1].state.is_bad]
    first = min(bad, key=_time, default=None)
    if first is None or first[1].state is not EndState.GONE or first[0].process.rank is not None:
        return first
    leading = min((folder for folder, _ in ends if folder.started), key=lambda one: one.started, default=None)
    return next((found for found in bad if found[0] is leading and _may_be_first(found[1], first[1])), first)


def _may_be_first(leader: FoundEnd, first: FoundEnd) -> bool:
    """Return whether the process that began first may have ended first: a server may outlive the trainer for long."""
    return leader.state is EndState.GONE and leader.time - first.time <= _TOGETHER


def _time(found: tuple[ProcessFolder, FoundEnd]) -> int:
    return found[1].time


def _sentence(folder: ProcessFolder, end: FoundEnd) -> str:
    return f"{folder.process.label} {end.words}"


def _seen(folder: ProcessFolder, exits: Mapping[Lifetime, Exit]) -> Exit | None:
    own = folder.process.lifetime
    return exits.get(own) if own is not None else None


def _of_latest_attempt(folders: list[ProcessFolder]) -> list[ProcessFolder]:
    """Leave out the processes of attempts that a later one follows.

    A launcher counts restarts in the first two numbers. The third is the moment of a launch: it is a restart where a
    process of the same role had ended before it.
    """
    highest = max(folder.process.attempt[:2] for folder in folders)
    latest = [folder for folder in folders if folder.process.attempt[:2] == highest or not folder.process.attempt]
    starts: dict[Any, tuple[tuple[int, ...], int]] = {}
    for folder in latest:
        role = folder.value("role")
        starts[role] = max(starts.get(role, ((), 0)), (folder.process.attempt, folder.started))
    return [folder for folder in latest if not _is_followed(folder, *starts[folder.value("role")])] or latest


def _is_followed(folder: ProcessFolder, attempt: tuple[int, ...], start: int) -> bool:
    return folder.process.attempt < attempt and folder.last_sign <= start


def _leading_first(folder: ProcessFolder) -> tuple[bool, bool, int]:
    rank = folder.process.rank
    return folder.value("role") != Role.TRAINER, rank is None, rank or 0


def _program(folders: list[ProcessFolder]) -> str:
    """Return what the user started: Ray starts each worker with a script of its own."""
    started = [folder for folder in folders if folder.value("launcher") != Launcher.RAY]
    return _text(_first(started, "command") or _first(folders, "service_name"))


def _first(folders: list[ProcessFolder], key: str) -> Any:
    return next((value for folder in folders if (value := folder.value(key)) is not None), None)


def _unusual(folders: list[ProcessFolder]) -> list[str]:
    """Return what is said of manifests that cannot be read, or that another version has written."""
    errors = [folder.process.manifest_error for folder in folders if folder.process.manifest_error]
    formats = {str(found) for folder in folders if (found := folder.value("format")) not in (None, FORMAT)}
    said = (
        [f"{errors[0]}{f' ({len(errors)} of {len(folders)} processes)' if len(folders) > 1 else ''}"] if errors else []
    )
    return [
        *said,
        *(f"written by another version ({_text(found)}, this one reads {FORMAT})" for found in sorted(formats)),
    ]


def _names(folders: list[ProcessFolder], summary: RunSummary | None) -> dict[str, Any]:
    """Return system and algorithm; no manifest has them."""
    run = summary.part("run") if summary is not None else {}
    found = {"system": _text(run.get("system")), "algorithm": _text(run.get("algorithm"))}
    for folder in folders[:_TAILS] if not any(found.values()) else ():
        resource = folder.process.resource
        found = {
            "system": _text(resource.get(names.RL_SYSTEM_NAME)),
            "algorithm": _text(resource.get(names.RL_ALGORITHM)),
        }
        if any(found.values()):
            break
    return found


def _from_tails(folders: list[ProcessFolder]) -> dict[str, Any]:
    """Return what the first process says that has made steps: a driver of Ray, else the leading one."""
    ordered = sorted(folders[:_TAILS], key=lambda folder: folder.value("role") != Role.DRIVER)
    for folder in ordered:
        values, result = folder.values, folder.result
        if folder.step is None and not result:
            continue
        reward, loss = run_records.reward_of(result), run_records.loss_of(result)
        if not result:
            reward, loss = folder.last_logged
        if reward is None and values.reward is not None:
            reward = LoggedValue("reward", values.reward)
        reward = folder.scored if reward is None else reward
        if loss is None and values.loss is not None:
            loss = LoggedValue("loss", values.loss)
        if reward is None and loss is None:
            # The driver of slime makes the steps, and its workers log.
            logged = [other.last_logged for other in ordered if other is not folder]
            reward = next((reward for reward, _ in logged if reward is not None), None)
            loss = next((loss for _, loss in logged if loss is not None), None)
        return {"step": folder.step, "steps": values.steps, "reward": reward, "loss": loss}
    return {}


def _worst(
    folders: list[ProcessFolder], summary: RunSummary | None, bad: tuple[ProcessFolder, FoundEnd] | None
) -> dict[str, Any]:
    """Return the worst finding: how it failed, else what a report has found, else the health rules while it ran."""
    found = _worst_of(summary) if summary is not None else {}
    if found.get("severity") != _CRITICAL and bad is not None:
        return {"severity": _CRITICAL, "code": "ended", "finding": _text(_sentence(*bad))}
    if summary is not None:
        return found
    of_rules = [(state, code) for folder in folders[:1] for code, state in folder.values.health.items() if state > 0]
    if not of_rules:
        return {}
    state, code = max(of_rules)
    return {
        "severity": _SEVERITIES.get(state, _CRITICAL),
        "code": code,
        "finding": _NUMBER.sub("", code).replace("_", " "),
    }


# -- from a collector's files --------------------------------------------------------------------------------------


def of_output(files: list[Path]) -> list[RunRow]:
    """Return the runs that the ends of a collector's files speak of."""
    remark = "files of a collector, of which the ends were read; `otel-rl report` reads all"
    rows = []
    for run in runs_of_output(files):
        identity = run.process.identity
        reward, loss = run.values.reward, run.values.loss
        rows.append(
            RunRow(
                _text(run.id),
                files[0].parent,
                run.state.value,
                remark,
                program=_text(identity(names.SERVICE_NAME)),
                system=_text(identity(names.RL_SYSTEM_NAME)),
                algorithm=_text(identity(names.RL_ALGORITHM)),
                # The folder's time is what a list of the newest goes by.
                latest_start=min(run.first, process_folders.modified(files[0].parent)),
                last_sign=run.last,
                ended=0 if run.state.is_open else run.last,
                step=run.values.step,
                reward=None if reward is None else LoggedValue("reward", float_or_none(reward)),
                loss=None if loss is None else LoggedValue("loss", float_or_none(loss)),
                world_size=int_or_none(identity(names.RL_WORLD_SIZE)),
            )
        )
    return rows
