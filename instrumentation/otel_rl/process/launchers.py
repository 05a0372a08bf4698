"""Launchers: the variables by which each one says which process of its launch this is.

One row per launcher, the innermost first: torchrun inside of an ``srun`` step numbers the ranks, not Slurm.
``docs/identity.md`` shows this table.

Only the standard library: ``opentelemetry-instrument`` imports this before it execs the program.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Launcher(NamedTuple):
    """Variables of one launcher; of several for one value, the first that holds a number counts.

    Where it has no names of its own they are those of ``torch.distributed``'s ``env://``.
    """

    #: Value of ``rl.launcher``.
    name: str
    #: Any of these variables in the environment says that this launcher started the process.
    signs: tuple[str, ...]
    rank: tuple[str, ...] = ("RANK",)
    local_rank: tuple[str, ...] = ("LOCAL_RANK",)
    world_size: tuple[str, ...] = ("WORLD_SIZE",)
    local_world_size: tuple[str, ...] = ()
    node_rank: tuple[str, ...] = ()
    #: Job id of the launcher itself, beside that of the scheduler around it.
    job: tuple[str, ...] = ()
    #: Its ranks number all processes of one launch. False when several groups with a rank 0 each share one run.
    numbers_the_launch: bool = True
    #: One process starts the ranks of all nodes, and hands its environment to them; else one process per node does.
    one_for_all_nodes: bool = False
    #: Without a rank, the process is the only one of its launch.
    single_without_rank: bool = False


_TORCHRUN = Launcher(
    "torchrun",
    ("TORCHELASTIC_RUN_ID",),
    local_world_size=("LOCAL_WORLD_SIZE",),
    node_rank=("GROUP_RANK",),
    job=("TORCHELASTIC_RUN_ID",),
)
#: Ray's variables stand before Slurm's and MPI's: a raylet passes those of its node to every worker.
RAY = Launcher("ray", ("RAY_RAYLET_PID",), job=("RAY_JOB_ID",), numbers_the_launch=False)
MULTIPROCESSING = Launcher("multiprocessing", (), world_size=(), numbers_the_launch=False)
_MPI = Launcher(
    "mpi",
    ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"),
    rank=("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"),
    local_rank=("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
    world_size=("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"),
    local_world_size=("OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
    node_rank=("OMPI_COMM_WORLD_NODE_RANK",),
    one_for_all_nodes=True,
)
LAUNCHERS = (
    Launcher("deepspeed", ("CROSS_RANK",), local_world_size=("LOCAL_SIZE",), node_rank=("CROSS_RANK",)),
    # It runs torchrun's agent; a single process gets no rank.
    _TORCHRUN._replace(name="accelerate", signs=("ACCELERATE_MIXED_PRECISION",), single_without_rank=True),
    _TORCHRUN,
    RAY,
    _MPI,
    Launcher(
        "slurm",
        ("SLURM_STEP_ID",),
        rank=("SLURM_PROCID",),
        local_rank=("SLURM_LOCALID",),
        # Not SLURM_NTASKS: a batch script that starts one process has it too.
        world_size=("SLURM_STEP_NUM_TASKS",),
        node_rank=("SLURM_NODEID",),
        one_for_all_nodes=True,
    ),
    Launcher(
        "kubernetes",
        ("KUBERNETES_SERVICE_HOST",),
        # RANK and WORLD_SIZE are Kubeflow's; an indexed job numbers its pods only.
        node_rank=("NODE_RANK", "JOB_COMPLETION_INDEX"),
    ),
    MULTIPROCESSING,
)
#: Started by hand or by a script, with the variables of ``torch.distributed``'s ``env://`` or without.
PLAIN = Launcher("none", (), local_world_size=("LOCAL_WORLD_SIZE",), node_rank=("NODE_RANK",))
#: Jobs of a scheduler around the launcher, with the prefix that they give a run id.
SCHEDULER_JOBS = (("SLURM_JOB_ID", "slurm-"), ("AZUREML_RUN_ID", ""))
SCHEDULER_RESTARTS = ("SLURM_RESTART_COUNT",)
ELASTIC_RESTARTS = ("TORCHELASTIC_RESTART_COUNT",)
#: Placeholders: torchrun without a rendezvous id, a Ray worker started ahead of its job.
NO_JOB = frozenset({"", "none", "ffffffff"})
#: Slurm numbers its own steps (batch script, interactive shell, extern) from here: nobody started them with srun.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0


def launcher_of(environ: Mapping[str, str]) -> Launcher:
    """Return the launcher that started the process with this environment."""
    for launcher in LAUNCHERS:
        if not any(sign in environ for sign in launcher.signs):
            continue
        if launcher is _MPI and _is_of_srun(environ):
            continue
        if launcher.name != "slurm" or slurm_step(environ):
            return launcher
    return PLAIN


def _is_of_srun(environ: Mapping[str, str]) -> bool:
    """Return whether srun itself speaks PMI to the process (``MpiDefault=pmix``): then Slurm knows more of it.

    Each launcher of MPI, which may run inside of a step, numbers the processes of a node too.
    """
    rank = first_number(environ, _MPI.rank)
    is_numbered_by_slurm = rank is not None and rank == number(environ.get("SLURM_PROCID"))
    return is_numbered_by_slurm and slurm_step(environ) is not None and first_number(environ, _MPI.local_rank) is None


def slurm_step(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (job, step) inside of a step that ``srun`` started; None in a batch script or an interactive shell."""
    job, step = number(environ.get("SLURM_JOB_ID")), number(environ.get("SLURM_STEP_ID"))
    return None if job is None or step is None or step >= _FIRST_SPECIAL_STEP else (job, step)


def job_id(environ: Mapping[str, str], launcher: Launcher) -> str | None:
    """Return the job's id by the scheduler, else the launcher; a Ray worker never answers for its node's scheduler."""
    schedulers = () if launcher is RAY else tuple(name for name, _ in SCHEDULER_JOBS)
    return next((environ[name] for name in (*schedulers, *launcher.job) if environ.get(name, "") not in NO_JOB), None)


def first_number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """Return the first of the variables that holds a whole number from 0."""
    return next((value for name in names if (value := number(environ.get(name))) is not None), None)


def number(text: str | None) -> int | None:
    """Parse a whole number from 0; None for anything else (``PMI_RANK=-1`` means no rank)."""
    try:
        value = int(text) if text else -1
    except ValueError:
        return None
    return value if value >= 0 else None
