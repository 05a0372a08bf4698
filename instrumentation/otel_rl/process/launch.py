"""The launch: run id, resume number and data directory, fixed once by the process that begins it.

The process that begins a launch writes ``OTEL_RL_RUN_ID`` and :data:`LAUNCH` to the environment. Children inherit both.
A launch begins with ``opentelemetry-instrument``, with a launcher such as torchrun, or with the first process that
records. Two launches never share a generated run id. ``docs/identity.md`` has the rules.

Imported by ``opentelemetry-instrument`` before it execs the program, so: nothing but the standard library.
"""

# ruff: noqa: PTH100, PTH111, PTH119 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
import re
import time
import zlib
from typing import NamedTuple

from otel_rl.core import stderr
from otel_rl.process import child_processes, launchers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

RUN_ID = "OTEL_RL_RUN_ID"
DATA_DIRECTORY = "OTEL_RL_DATA_DIR"
#: Set by us: how the run id came about, see :class:`Launch`.
LAUNCH = "OTEL_RL_LAUNCH"
NAME = "otel_rl"
#: Of a part of a file's name: file systems take 255 bytes in all.
_LONGEST_NAME = 160

_LAUNCHER = "launcher"
_CHOSEN = "chosen"
_STEP = "step"
#: Programs that hand the environment to the ranks that they start; those written in Python mark themselves.
_NATIVE_LAUNCHERS = frozenset({"srun", "mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "prun", "prterun"})


class Launch(NamedTuple):
    """Record of a launch, as :data:`LAUNCH` carries it to the children."""

    #: ``<host>:<pid>`` of the process that began it.
    process: str
    #: That process is a launcher: the ranks below it belong to this launch.
    launcher: bool
    #: The user has set the run id.
    chosen: bool
    #: Every task of the Slurm step comes to the same launch by itself.
    of_step: bool
    #: Scheduler restarts, elastic restarts, resume number (raised where the process replaces its program).
    attempt: tuple[int, int, int]
    #: Of the launcher's variables around that process: ranks that a launcher starts below it have others.
    fingerprint: str
    run_id: str

    @property
    def own(self) -> bool:
        """True in the process that began the launch, also after it has replaced its program."""
        return self.process == _this_process()

    def is_above(self, environ: Mapping[str, str]) -> bool:
        """Return whether a launcher stands between the process that began the launch and this one."""
        return not self.own and self.fingerprint != _fingerprint(environ)


def prepare(
    environ: MutableMapping[str, str], argv: Sequence[str] = (), *, begins: bool = False, replaced: bool = False
) -> Launch:
    """Fix run id and data directory in ``environ``; what the user has set stays.

    Args:
        environ: The environment, which the children inherit.
        argv: The command line: it may start ranks, and name a rendezvous id.
        begins: True in ``opentelemetry-instrument`` and in launchers, which begin a launch unless they are part of one.
        replaced: The process recorded before, as another program: this one is a later attempt.
    """
    launch = known(environ)
    # Workers of Ray and multiprocessing belong to their driver, whatever the variables of their node say.
    if launch is None or (not child_processes.is_worker(argv) and _begins_another(launch, environ, begins=begins)):
        launch = _begin(environ, argv, launch)
    if replaced:
        # Steps of the same number have the ids of those before.
        scheduler, elastic, resumed = launch.attempt
        launch = launch._replace(attempt=(scheduler, elastic, resumed + 1))
    if launch.own and (_starts_ranks(argv) or child_processes.starts_ranks(argv)):
        launch = launch._replace(launcher=True)
    environ[RUN_ID] = launch.run_id
    environ[LAUNCH] = _written(launch)
    environ[DATA_DIRECTORY] = _absolute(os.path.expanduser(environ.get(DATA_DIRECTORY, "").strip() or "otel-rl"))
    return launch


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        # The working directory has been deleted. The file store will say what it cannot do.
        return path


def choose_distro(environ: MutableMapping[str, str]) -> None:
    """Choose our distro and configurator unless the user has chosen."""
    environ.setdefault("OTEL_PYTHON_DISTRO", NAME)
    if environ["OTEL_PYTHON_DISTRO"] == NAME:
        environ.setdefault("OTEL_PYTHON_CONFIGURATOR", NAME)


def known(environ: Mapping[str, str]) -> Launch | None:
    """Return the launch that the environment tells of; None when there is none, or the user chose another run id."""
    parts = environ.get(LAUNCH, "").split("|", 4)
    if len(parts) != 5 or parts[4] != environ.get(RUN_ID, "").strip():  # noqa: PLR2004 - as written below
        return None
    marks = parts[1].split("+")
    return Launch(
        parts[0], _LAUNCHER in marks, _CHOSEN in marks, _STEP in marks, parse_attempt(parts[2]), parts[3], parts[4]
    )


def _written(launch: Launch) -> str:
    marks = {_LAUNCHER: launch.launcher, _CHOSEN: launch.chosen, _STEP: launch.of_step}
    text = "+".join(mark for mark, is_set in marks.items() if is_set)
    return "|".join((launch.process, text, written_attempt(launch.attempt), launch.fingerprint, launch.run_id))


def _begins_another(launch: Launch, environ: Mapping[str, str], *, begins: bool) -> bool:
    """Return whether ``launch`` belongs to an ancestor and this process is part of a new launch."""
    if launch.own or launch.launcher:
        return False
    return begins or launch.fingerprint != _fingerprint(environ)


def _begin(environ: Mapping[str, str], argv: Sequence[str], outer: Launch | None) -> Launch:
    step = _own_slurm_step(environ)
    chosen = environ.get(RUN_ID, "").strip() if outer is None or outer.chosen else ""
    run_id = chosen or (f"slurm-{step[0]}.{step[1]}" if step else made_run_id(environ, argv))
    attempt = (
        restarts(environ, launchers.SCHEDULER_RESTARTS),
        restarts(environ, launchers.ELASTIC_RESTARTS),
        # The same run id again is a resume: only this number tells the two launches apart.
        _resume_number(step) if chosen else 0,
    )
    return Launch(_this_process(), False, bool(chosen), step is not None, attempt, _fingerprint(environ), run_id)


def _own_slurm_step(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (job, step) where this process is the step's task: a script in between may start several programs."""
    return launchers.slurm_step(environ) if environ.get("SLURM_TASK_PID") == str(os.getpid()) else None


def _resume_number(step: tuple[int, int] | None) -> int:
    """Return a number that rises with each launch: of the step, which all its tasks know, else the time in UTC."""
    if step is not None:
        return int(f"{step[0]}{step[1]:06d}")
    now = time.time_ns() // 1000
    return int(time.strftime("%Y%m%d%H%M%S", time.gmtime(now // 10**6)) + f"{now % 10**6:06d}")


def made_run_id(environ: Mapping[str, str], argv: Sequence[str] = ()) -> str:
    """Return a new run id: the job's id where there is one, and a random part that no other launch has."""
    job = launcher_job(environ, argv)
    return f"{job}-{os.urandom(4).hex()}" if job else random_run_id()


def launcher_job(environ: Mapping[str, str], argv: Sequence[str] = ()) -> str | None:
    """Return what the run id begins with: the id of the batch job, or of the rendezvous."""
    for name, prefix in launchers.SCHEDULER_JOBS:
        if job := environ.get(name):
            step = launchers.slurm_step(environ) if prefix else None
            return f"{prefix}{job}.{step[1]}" if step else f"{prefix}{job}"
    for candidate in (environ.get("TORCHELASTIC_RUN_ID"), environ.get("PET_RDZV_ID"), _rendezvous_id(argv)):
        if candidate and candidate not in launchers.NO_JOB:
            return candidate
    return None


def _rendezvous_id(argv: Sequence[str]) -> str | None:
    for position, argument in enumerate(argv):
        rendezvous = re.fullmatch(r"--rdzv[-_]id(?:=(.*))?", argument)
        if rendezvous:
            return rendezvous[1] or (argv[position + 1] if position + 1 < len(argv) else None)
    return None


def random_run_id() -> str:
    """Return a new run id that sorts by start time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(4).hex()}"


def restarts(environ: Mapping[str, str], names: tuple[str, ...]) -> int:
    """Return how often the job was started again, by the first of the variables that says so."""
    return launchers.first_number(environ, names) or 0


def written_attempt(attempt: tuple[int, int, int]) -> str:
    """Return the attempt as ``rl.run.attempt`` has it: ``1.0.2``."""
    return ".".join(map(str, attempt))


def parse_attempt(text: str) -> tuple[int, int, int]:
    """Read what :func:`written_attempt` wrote; zeros for anything else."""
    numbers = [launchers.number(part) for part in text.split(".")]
    if len(numbers) != 3:  # noqa: PLR2004 - scheduler restarts, elastic restarts, resume number
        return 0, 0, 0
    scheduler, elastic, resumed = (number or 0 for number in numbers)
    return scheduler, elastic, resumed


def take_over(environ: MutableMapping[str, str], run_id: str, attempt: str) -> None:
    """Put rank 0's run id and attempt in the environment, so that later children join its launch.

    Only replaces what is there: adding a variable while a thread of the program reads the environment is not safe.
    """
    launch = known(environ)
    if launch is not None and launch.run_id != run_id:
        launch = launch._replace(run_id=run_id, attempt=parse_attempt(attempt))
        environ[LAUNCH], environ[RUN_ID] = _written(launch), run_id


def safe(text: str) -> str:
    """Return ``text``, for example a run id, as a file name; the end of a long one is a hash of all of it."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip(".") or "_"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}"


def _starts_ranks(argv: Sequence[str]) -> bool:
    """Return whether the command line is ``opentelemetry-instrument [options] mpirun ...``: mpirun does not record."""
    position = 1
    while position < len(argv) and argv[position].startswith("--"):
        position += 1 if "=" in argv[position] else 2
    return position < len(argv) and os.path.basename(argv[position]) in _NATIVE_LAUNCHERS


def _this_process() -> str:
    return f"{os.uname().nodename}:{os.getpid()}"


def _fingerprint(environ: Mapping[str, str]) -> str:
    return f"{zlib.crc32(child_processes.fingerprint(environ).encode('utf-8', 'surrogateescape')):08x}"


def disabled(environ: Mapping[str, str]) -> bool:
    """Return whether ``OTEL_SDK_DISABLED`` is ``true``."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


_SET_UP = "telemetry could not be set up"
_reported: set[str] = set()


def report_failure(error: Exception, what: str = _SET_UP, loss: str = "nothing is recorded") -> None:
    """Report once ``what`` failed, and the loss: the set-up if the SDK refused a variable's value (some at import)."""
    if what not in _reported:
        _reported.add(what)
        reason = (str(error).strip().splitlines() or [""])[0]
        advice = "" if isinstance(error, OSError) or what != _SET_UP else ", check the OTEL_* variables"
        stderr.write_line(f"otel-rl: {what} ({type(error).__name__}: {reason}); {loss}{advice}")
