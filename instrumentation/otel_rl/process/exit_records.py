"""How children of this process ended, as lines of a file that a postmortem reads.

The file lies in the folder of the run, where there is one on this node, else beside the rings. Imports no
OpenTelemetry: launchers write it too.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.core import settings
from otel_rl.process import launch
from otel_rl.process.lifetime import Lifetime

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

SUFFIX = ".exits"
#: Names of such files.
PATTERN = f"otel-rl-*{SUFFIX}"
_MODE = 0o600
#: Who reports the end of a pool's worker, that of an executor and that of a ``multiprocessing.Pool``.
POOL = "the process of its pool"
MULTIPROCESSING_POOL = "the process of its multiprocessing.Pool"
#: Who reports the end of a child that its parent ended by ``terminate()``, as a ``multiprocessing.Pool`` does.
TERMINATING = "its parent, which called terminate()"
#: Most bytes that are read of a file.
_MOST = 1 << 20


@dataclass(frozen=True)
class Exit:
    """The end of one process, as its parent saw it."""

    #: As the parent knew it; ranks that agree on another one do not tell it.
    run_id: str
    lifetime: Lifetime
    #: As ``subprocess.Popen.returncode`` has it: the negative number of a signal that killed it.
    status: int
    rank: int | None
    #: What the parent is, and its pid.
    reported_by: str
    parent: int
    host: str
    at_unix_nano: int
    #: OOM kills that the cgroup has counted since the end before; None: not known.
    oom_kills: int | None

    @property
    def signal(self) -> str | None:
        """Name of the signal that killed it."""
        if self.status >= 0:
            return None
        try:
            return signal.Signals(-self.status).name
        except ValueError:
            return f"signal {-self.status}"

    @property
    def is_of_pool(self) -> bool:
        """True of a pool's worker: the process of the pool knows what its calls came to, and the status says little."""
        return self.reported_by in (POOL, MULTIPROCESSING_POOL)

    @property
    def is_asked_for(self) -> bool:
        """True where the parent ended it, by ``terminate()``."""
        return self.reported_by == TERMINATING

    @property
    def loses_calls(self) -> bool:
        """True where the pool waits for the worker's call for good (https://bugs.python.org/issue22393)."""
        return self.reported_by == MULTIPROCESSING_POOL

    @property
    def cause(self) -> str:
        """How it ended, in words."""
        text = f"killed by {self.signal}" if self.status < 0 else f"exited with status {self.status}"
        if self.status == -signal.SIGKILL and self.oom_kills:
            kills = "one OOM kill" if self.oom_kills == 1 else f"{self.oom_kills} OOM kills"
            text += f"; the cgroup counted {kills} in that time"
        return text

    @property
    def words(self) -> str:
        """How it ended and who says so."""
        return f"{self.cause} (reported by {self.reported_by}, pid {self.parent})"


def write(exit_: Exit, environ: Mapping[str, str] = os.environ) -> None:
    """Append ``exit_`` to the file of this process.

    Raises:
        OSError: the file cannot be written.
    """
    path = _file(environ, in_run=exit_.is_asked_for)
    if path is None:
        return
    line = json.dumps({**asdict(exit_), "lifetime": list(exit_.lifetime)}) + "\n"
    # Not blocking: somebody may have put a pipe there.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, _MODE)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no ordinary file", str(path))
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _file(environ: Mapping[str, str], *, in_run: bool) -> Path | None:
    """Return the file of this process; None without a folder of the run if the line matters ``in_run`` only."""
    run = launch.safe(_run_id(environ))
    folder = Path(environ.get(launch.DATA_DIRECTORY, "").strip() or "otel-rl") / run
    if not folder.is_dir():
        configured = settings.current()
        if in_run or configured.ring != "on":
            return None
        folder = Path(configured.ring_directory).expanduser()
    parts = ("otel-rl", run, launch.safe(socket.gethostname()), str(os.getpid()))
    return folder / f"{'-'.join(parts)}{SUFFIX}"


def _run_id(environ: Mapping[str, str]) -> str:
    return environ.get(launch.RUN_ID, "").strip() or "unknown-run"


def make(lifetime: Lifetime, status: int, rank: int | None, reported_by: str, oom_kills: int | None) -> Exit:
    """Describe an end that this process has just seen."""
    host, run = socket.gethostname(), _run_id(os.environ)
    return Exit(run, lifetime, status, rank, reported_by, os.getpid(), host, time.time_ns(), oom_kills)


def read_all(paths: Iterable[Path], owners: Collection[int]) -> dict[Lifetime, Exit]:
    """Return how parents saw processes end; a file of somebody else is left out, and one that is gone."""
    return {ended.lifetime: ended for path in sorted(paths) if _is_of(path, owners) for ended in read(path)}


def _is_of(path: Path, owners: Collection[int]) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid in owners


def read(path: Path) -> Iterator[Exit]:
    """Read the lines of ``path`` that make sense."""
    try:
        with path.open("rb") as file:
            lines = file.read(_MOST).splitlines()
    except OSError:
        return
    # A line may be cut, or by somebody else.
    yield from (record for record in map(_parse, lines) if record is not None)


def _parse(line: bytes) -> Exit | None:
    try:
        fields: dict[str, Any] = json.loads(line)
        boot_id, pid, start_ticks, namespace = fields.pop("lifetime")
        lifetime = Lifetime(str(boot_id), int(pid), int(start_ticks), int(namespace))
        return Exit(lifetime=lifetime, **_plain(fields))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: int(fields[name]) for name in ("status", "parent", "at_unix_nano")}
    unknown = {name: None if fields[name] is None else int(fields[name]) for name in ("rank", "oom_kills")}
    texts = {name: str(fields[name]) for name in ("run_id", "reported_by", "host")}
    return {**numbers, **unknown, **texts}
