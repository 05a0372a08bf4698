"""Classifies a Python process from command line and environment alone: a launcher, one of its ranks, or neither.

Imports only cheap standard library modules: the bootstrap runs this in every Python child, in about a millisecond.
"""

# ruff: noqa: PTH119, PTH123 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Set by a process that records: ``<pid>|<service name>|<launch fingerprint>``. Children compare with it.
MARKER = "OTEL_RL_PROCESS"
CHILDREN = "OTEL_RL_CHILDREN"
#: Value of :data:`MARKER` for what ``opentelemetry-instrument`` starts: the first Python process, below a shell too.
FIRST = "first"

#: Launchers: programs that only start others. Recording them would add processes without a rank to every run.
LAUNCHER_SCRIPTS = frozenset({"torchrun", "accelerate", "deepspeed", "ray", "trl"})
LAUNCHER_MODULES = frozenset(
    {
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate.commands.accelerate_cli",
        "accelerate.commands.launch",
        "deepspeed.launcher.runner",
        "deepspeed.launcher.launch",
        "ray.scripts.scripts",
        "trl.cli",
    }
)
#: Subcommands for which a launcher does the work in its own process.
_IN_PROCESS = {"trl": frozenset({"vllm-serve"}), "trl.cli": frozenset({"vllm-serve"})}
#: Variables that only launchers set; a program that sets RANK for itself must not look like one.
_LAUNCH_VARIABLES = (
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "CROSS_RANK",
)
_ELASTIC_VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_PORT")
_MULTIPROCESSING = ("from multiprocessing.spawn import", "from multiprocessing.forkserver import")
_RAY_WORKER = "default_worker.py"
_OPTIONS_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})


def program(argv: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the interpreter's target: (``script`` | ``module`` | ``code`` | ``none``, which, its arguments)."""
    position = 1
    while position < len(argv):
        argument = argv[position]
        if argument in ("-c", "-m"):
            which = argv[position + 1] if position + 1 < len(argv) else ""
            return ("code" if argument == "-c" else "module"), which, list(argv[position + 2 :])
        if argument in _OPTIONS_WITH_VALUE:
            position += 2
        elif argument.startswith("-") and argument != "-":
            position += 1
        else:
            return "script", argument, list(argv[position + 1 :])
    return "none", "", []


def is_launcher(argv: Sequence[str]) -> bool:
    """Return whether this is torchrun, accelerate, deepspeed or the like: they start the processes that matter."""
    kind, which, arguments = program(argv)
    name = os.path.basename(which) if kind == "script" else which
    known = LAUNCHER_SCRIPTS if kind == "script" else LAUNCHER_MODULES if kind == "module" else frozenset()
    return name in known and not _IN_PROCESS.get(name, frozenset()) & set(arguments)


def starts_ranks(argv: Sequence[str]) -> bool:
    """Return whether a launcher's children are the ranks of one launch; Ray's command starts a cluster for many."""
    _, which, _ = program(argv)
    return is_launcher(argv) and not os.path.basename(which).startswith("ray")


def fingerprint(environ: Mapping[str, str]) -> str:
    """Return the launch that the environment belongs to; empty outside of any launcher."""
    names = _LAUNCH_VARIABLES + (_ELASTIC_VARIABLES if "TORCHELASTIC_RUN_ID" in environ else ())
    return ",".join(f"{name}={environ[name]}" for name in names if name in environ)


def marker(pid: int, service_name: str, environ: Mapping[str, str]) -> str:
    """Return the value of :data:`MARKER` for a process that records."""
    return f"{pid}|{service_name.replace('|', '_')}|{fingerprint(environ)}"


def parse_marker(environ: Mapping[str, str]) -> tuple[int, str, str] | None:
    """Return (pid, service name, fingerprint) of the nearest ancestor that records."""
    pid, _, rest = environ.get(MARKER, "").partition("|")
    if not pid.isdigit():
        return None
    service_name, _, launch = rest.partition("|")
    return int(pid), service_name, launch


def is_worker(argv: Sequence[str]) -> bool:
    """Return whether multiprocessing or Ray started the child: it runs the parent's code."""
    kind, which, _ = program(argv)
    if kind == "code":
        return which.startswith(_MULTIPROCESSING)
    return kind == "script" and os.path.basename(which) == _RAY_WORKER


def wanted(environ: Mapping[str, str], argv: Sequence[str], parent: int) -> bool:  # noqa: PLR0911 - one per rule
    """Return whether a Python child with this environment, command line and parent process must record."""
    if is_launcher(argv):
        return False
    if environ.get(MARKER) == FIRST:
        return True
    children = environ.get(CHILDREN, "").strip().lower()
    if children == "none":
        return False
    if children == "all":
        return True
    ancestor = parse_marker(environ)
    if ancestor is not None and ancestor[0] == os.getpid():
        # This very process recorded, and has replaced its program (``os.execv``).
        return _is_main_interpreter()
    if is_worker(argv):
        # A worker of a process that does not record (a sandbox, say) does not record either.
        kind, _, _ = program(argv)
        return kind == "script" or ancestor is None or ancestor[0] == parent
    launch = fingerprint(environ)
    if launch and (ancestor is None or ancestor[2] != launch):
        return True
    return is_launcher(command_line(parent))


def _is_main_interpreter() -> bool:
    """Return whether this is the main interpreter: our threads must not outlive a sub-interpreter."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            current = __import__(name).get_current()
        except ImportError:
            continue
        return int(current[0] if isinstance(current, tuple) else current) == 0
    return True


def command_line(pid: int) -> list[str]:
    """Return the arguments of another process; none where it has ended or is not ours to see."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(part) for part in file.read().split(b"\0")[:-1]]
    except OSError:
        return []


def original_arguments() -> list[str]:
    """Return the interpreter's command line; ``sys.argv`` is not set yet when a sitecustomize runs."""
    return list(getattr(sys, "orig_argv", ()))


def is_data_loader_worker() -> bool:
    """Return whether this is a PyTorch DataLoader worker, however it was started; imports nothing.

    Such workers record nothing: a program often starts hundreds of them.
    """
    module = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(module, "_worker_info", None) is not None
