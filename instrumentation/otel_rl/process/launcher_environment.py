"""Who this process is, from the environment of the launcher that started it."""

# ruff: noqa: PTH119, PTH122 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from otel_rl import settings
from otel_rl.process import child_processes, launch, process_identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Run field -> variables in order of precedence. SLURM_NTASKS is absent on purpose: a batch script that starts one
#: process has it too.
_NUMBERS = {
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"),
    "local_rank": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"),
    "node_rank": ("GROUP_RANK", "NODE_RANK", "OMPI_COMM_WORLD_NODE_RANK", "SLURM_NODEID", "JOB_COMPLETION_INDEX"),
}
_LAUNCHERS = (
    ("torchrun", ("TORCHELASTIC_RUN_ID",)),
    ("ray", ("RAY_RAYLET_PID", "RAY_JOB_ID")),
    ("slurm", ("SLURM_PROCID",)),
    ("mpi", ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")),
    ("kubernetes", ("KUBERNETES_SERVICE_HOST",)),
)
_JOB_IDS = ("SLURM_JOB_ID", "RAY_JOB_ID", "TORCHELASTIC_RUN_ID", "AZUREML_RUN_ID")
#: Placeholders: torchrun without a rendezvous id, a Ray worker started ahead of its job.
_NO_JOB = frozenset({"", "none", "ffffffff"})
_RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")


def detect(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of :class:`.Run` that the environment tells; ``None`` where it does not."""
    found: dict[str, Any] = {field: _first_number(environ, names) for field, names in _NUMBERS.items()}
    found["id"] = environ.get(launch.RUN_ID)
    found["attempt"] = sum(_number(environ.get(name)) or 0 for name in _RESTARTS)
    found["launcher"] = next(
        (name for name, variables in _LAUNCHERS if any(variable in environ for variable in variables)), "none"
    )
    found["job_id"] = next((environ[name] for name in _JOB_IDS if environ.get(name, "") not in _NO_JOB), None)
    ancestor = child_processes.parse_marker(environ)
    # Its own marker is there when the process has replaced its program.
    found["leads"] = found["rank"] in (0, None) and (ancestor is None or ancestor[0] == os.getpid())
    return found


def adopt() -> None:
    """Tell :mod:`otel_rl.process.process_identity` who this process is."""
    configured = settings.current()
    process_identity.update(**detect(os.environ), role=configured.role, algorithm=configured.algorithm)
    process_identity.add_listener(_follow)


def _follow(who: process_identity.Run) -> None:
    """A rank that becomes known later and is not the first does not speak for the run."""
    if who.leads and who.rank not in (0, None):
        process_identity.update(leads=False)


def service_name(environ: Mapping[str, str], argv: Sequence[str]) -> str:
    """Default ``service.name``: the script's stem or the module; a worker takes that of the process that started it."""
    ancestor = child_processes.parse_marker(environ)
    if ancestor is not None and child_processes.is_worker(argv) and ancestor[1]:
        return ancestor[1]
    kind, which, _ = child_processes.program(argv)
    if kind == "script":
        return os.path.splitext(os.path.basename(which.rstrip("/")))[0] or "python"
    return which if kind == "module" and which else "python"


def command(argv: Sequence[str]) -> str:
    """The program's name for the manifest; never its arguments, which may hold secrets."""
    kind, which, _ = child_processes.program(argv)
    return f"-m {which}" if kind == "module" else os.path.basename(which) if kind == "script" else "python"


def _first_number(environ: Mapping[str, str], names: Sequence[str]) -> int | None:
    return next((number for name in names if (number := _number(environ.get(name))) is not None), None)


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
