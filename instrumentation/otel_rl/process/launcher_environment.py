"""Detects the identity of this process from the environment of the launcher that started it."""

# ruff: noqa: PTH119, PTH122 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from otel_rl.core import settings
from otel_rl.process import child_processes, launch, launchers, process_identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def detect(environ: Mapping[str, str], argv: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of :class:`.Run` that the environment and the command line tell; ``None`` for unknown ones."""
    launcher = _launcher(environ, argv)
    begun = launch.known(environ)
    started_by_program = child_processes.is_rank_of_program(environ, argv)
    rank = launchers.first_number(environ, launcher.rank)
    if rank is None and started_by_program and not launchers.first_number(environ, launcher.node_rank):
        # Lightning sets no RANK; on the first node the numbers are the same.
        rank = launchers.first_number(environ, launcher.local_rank)
    numbered = rank is not None and launcher.numbers_the_launch and not _belongs_to_a_rank(environ, argv)
    # The program that has started its ranks speaks for the run.
    leads = rank == 0 and not started_by_program if numbered else _drives(environ, argv, launcher, begun)
    attempt = launch.written_attempt(_attempt(environ, launcher, begun))
    run_id = environ.get(launch.RUN_ID)
    agreed = not numbered or _agreed(environ, launcher, begun, started_by_program=started_by_program)
    return {
        "id": run_id,
        "attempt": attempt,
        "rank": rank,
        "local_rank": launchers.first_number(environ, launcher.local_rank),
        "world_size": launchers.first_number(environ, launcher.world_size),
        "node_rank": launchers.first_number(environ, launcher.node_rank),
        "launcher": launcher.name,
        "job_id": launchers.job_id(environ, launcher),
        "numbered": numbered,
        "agreed": agreed,
        "leads": leads,
        "steps_key": f"{run_id}/{attempt}" if (numbered and agreed) or leads else None,
    }


def _launcher(environ: Mapping[str, str], argv: Sequence[str]) -> launchers.Launcher:
    """Return the launcher of this process; Ray and multiprocessing are told by the command line of their workers."""
    if child_processes.is_worker(argv):
        kind, _, _ = child_processes.program(argv)
        return launchers.RAY if kind == "script" or "RAY_RAYLET_PID" in environ else launchers.MULTIPROCESSING
    if child_processes.is_rank_of_program(environ, argv):
        # Variables of Slurm, MPI or Kubernetes are those of the program that has started it.
        return launchers.PLAIN
    return launchers.launcher_of(environ)


def _belongs_to_a_rank(environ: Mapping[str, str], argv: Sequence[str]) -> bool:
    """Return whether the launcher's variables number an ancestor that records, and not this child."""
    ancestor = child_processes.parse_marker(environ)
    if ancestor is None or ancestor[0] == os.getpid() or ancestor[3] != child_processes.fingerprint(environ):
        return False
    return not child_processes.is_rank_of_program(environ, argv)


def _drives(
    environ: Mapping[str, str], argv: Sequence[str], launcher: launchers.Launcher, begun: launch.Launch | None
) -> bool:
    """Return whether a process without a number is proven to be the first of its launch."""
    if launcher is launchers.RAY or child_processes.is_worker(argv):
        return False
    ancestor = child_processes.parse_marker(environ)
    if begun is not None and begun.own:
        return True
    if ancestor is not None and ancestor[0] != os.getpid():
        return False
    return begun is None or (begun.launcher and launcher.single_without_rank)


def _agreed(
    environ: Mapping[str, str],
    launcher: launchers.Launcher,
    begun: launch.Launch | None,
    *,
    started_by_program: bool,
) -> bool:
    """Return whether all ranks have this rank's run id and attempt; else ``init_process_group`` settles them.

    Rank 0 need not ask: the others take over what it has.
    """
    rank, world = (launchers.first_number(environ, names) for names in (launcher.rank, launcher.world_size))
    if begun is None or begun.of_step or rank == 0 or world == 1:
        return True
    if started_by_program and environ.get("MASTER_ADDR", "") in ("", *_LOOPBACK, os.uname().nodename):
        # Rank 0 is on this machine, so the same program has started it.
        return True
    if not (begun.is_above(environ) or started_by_program):
        # Each rank began a launch of its own: `torchrun --no-python opentelemetry-instrument python train.py`.
        return False
    if launcher.one_for_all_nodes or launchers.first_number(environ, launcher.node_rank) == 0:
        return True
    return world is not None and world == launchers.first_number(environ, launcher.local_world_size)


def _attempt(
    environ: Mapping[str, str], launcher: launchers.Launcher, begun: launch.Launch | None
) -> tuple[int, int, int]:
    if begun is not None and not launcher.numbers_the_launch:
        # A worker belongs to the attempt of its driver; on a Ray node Slurm's counter is that of the cluster's job.
        return begun.attempt
    scheduler = launch.restarts(environ, launchers.SCHEDULER_RESTARTS)
    elastic = launch.restarts(environ, launchers.ELASTIC_RESTARTS)
    return scheduler, elastic, begun.attempt[2] if begun is not None else 0


def adopt(argv: Sequence[str]) -> None:
    """Tell :mod:`otel_rl.process.process_identity` who this process is."""
    configured = settings.current()
    process_identity.begin(
        process_identity.ProcessIdentity(
            **detect(os.environ, argv), role=configured.role, algorithm=configured.algorithm
        )
    )


def service_name(environ: Mapping[str, str], argv: Sequence[str]) -> str:
    """Return the default ``service.name``: the script's stem or the module; a worker has that of its parent."""
    ancestor = child_processes.parse_marker(environ)
    if ancestor is not None and child_processes.is_worker(argv) and ancestor[1]:
        return ancestor[1]
    kind, which, _ = child_processes.program(argv)
    if child_processes.is_notebook_kernel(argv):
        from otel_rl.process import notebooks  # noqa: PLC0415 - few processes are kernels

        return notebooks.name(environ)
    if kind == "script":
        return os.path.splitext(os.path.basename(which.rstrip("/")))[0] or "python"
    return which if kind == "module" and which else "python"


def command(argv: Sequence[str]) -> str:
    """Return the program's name for the manifest; never its arguments, which may hold secrets."""
    kind, which, _ = child_processes.program(argv)
    return f"-m {which}" if kind == "module" else os.path.basename(which) if kind == "script" else "python"
