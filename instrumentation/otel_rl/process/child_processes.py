"""Classifies a Python process from command line and environment alone: a launcher, one of its ranks, or neither.

Imports only cheap standard library modules: the bootstrap runs this in every Python child, in about a millisecond.
"""

# ruff: noqa: PTH119, PTH123 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

#: Set by a process that records: ``<pid>|<service name>|<ranks>|<launch fingerprint>``. Children compare with it.
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
#: Numbers of a rank for programs that start their ranks themselves (Lightning sets no ``RANK``).
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "NODE_RANK")
#: Packages whose workers ``python -c`` starts; ``multiprocess`` is the copy of ``multiprocessing`` that datasets uses.
_MULTIPROCESSING = tuple(
    f"from {package}.{module} import"
    for package in ("multiprocessing", "multiprocess")
    for module in ("spawn", "forkserver")
)
#: Modules that are workers: joblib's copy of loky, and loky itself.
_LOKY = ("joblib.externals.loky.backend.", "loky.backend.")
_RAY_WORKER = "default_worker.py"
#: What Jupyter starts for a notebook.
_KERNELS = frozenset({"ipykernel_launcher", "ipykernel"})
#: Short options of the interpreter that take a value, and the kind of program that they name (Python/getopt.c).
_SHORT_OPTIONS_WITH_VALUE = {"c": "code", "m": "module", "W": "", "X": ""}
_LONG_OPTION_WITH_VALUE = "--check-hash-based-pycs"


def program(argv: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the interpreter's target: (``script`` | ``module`` | ``code`` | ``none``, which, its arguments)."""
    position = 1
    while position < len(argv):
        argument = argv[position]
        position += 1
        if argument == "--":
            return ("script", argv[position], list(argv[position + 1 :])) if position < len(argv) else ("none", "", [])
        if not argument.startswith("-") or argument == "-":
            return "script", argument, list(argv[position:])
        option = None if argument.startswith("--") else _first_with_value(argument)
        if option is None:
            position += argument == _LONG_OPTION_WITH_VALUE
            continue
        letter, value = option
        if not value:
            value = argv[position] if position < len(argv) else ""
            position += 1
        kind = _SHORT_OPTIONS_WITH_VALUE[letter]
        if kind:
            return kind, value, list(argv[position:])
    return "none", "", []


def _first_with_value(cluster: str) -> tuple[str, str] | None:
    """Return the first option of ``-um`` that takes a value, and the rest of the word, which is the value."""
    for position, letter in enumerate(cluster[1:], 2):
        if letter in _SHORT_OPTIONS_WITH_VALUE:
            return letter, cluster[position:]
    return None


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
    return f"{pid}|{service_name.replace('|', '_')}|{','.join(_ranks(environ))}|{fingerprint(environ)}"


def parse_marker(environ: Mapping[str, str]) -> tuple[int, str, list[str], str] | None:
    """Return (pid, service name, ranks, fingerprint) of the nearest ancestor that records."""
    pid, _, rest = environ.get(MARKER, "").partition("|")
    if not pid.isdigit():
        return None
    service_name, _, rest = rest.partition("|")
    ranks, _, launch = rest.partition("|")
    return int(pid), service_name, ranks.split(","), launch


def mark_ranks(environ: MutableMapping[str, str]) -> None:
    """Write the ranks of ``environ`` to the marker of this process, which has learnt that it is one of a group.

    A program that numbers itself after its start passes the numbers on to its helpers, which are no ranks.
    """
    own = parse_marker(environ)
    if own is not None and own[0] == os.getpid():
        environ[MARKER] = marker(own[0], own[1], environ)


def _ranks(environ: Mapping[str, str]) -> list[str]:
    return [value if (value := environ.get(name, "")).isdigit() else "" for name in _RANK_VARIABLES]


def is_rank_of_program(environ: Mapping[str, str], argv: Sequence[str]) -> bool:
    """Return whether a program that records has started this process as a rank, without a launcher that we know.

    So do Lightning's ``strategy="ddp"`` and launchers of one's own. A helper of a rank has the numbers of that rank.
    """
    ancestor = parse_marker(environ)
    if ancestor is None or ancestor[0] == os.getpid() or ancestor[3] != fingerprint(environ):
        return False
    if program(argv)[0] not in ("script", "module"):
        return False
    theirs, ours = ancestor[2][:2], _ranks(environ)[:2]
    if any(theirs):
        return any(our and their and our != their for our, their in zip(ours, theirs, strict=False))
    # The nearest one that records had no number at its start. It may have given itself 0 since, and its helpers too.
    is_first = ours[0] == "0" and environ.get("WORLD_SIZE", "") not in ("", "1")
    return is_first or any(int(our or 0) > 0 for our in ours)


def is_worker(argv: Sequence[str]) -> bool:
    """Return whether multiprocessing, its copies or Ray started the child: it runs the parent's code."""
    kind, which, _ = program(argv)
    if kind == "code":
        return which.startswith(_MULTIPROCESSING)
    if kind == "module":
        return which.startswith(_LOKY) and "popen" in which
    return kind == "script" and os.path.basename(which) == _RAY_WORKER


def is_notebook_kernel(argv: Sequence[str]) -> bool:
    """Return whether Jupyter has started this process to run a notebook."""
    kind, which, _ = program(argv)
    return kind == "module" and which in _KERNELS


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
    if has_replaced_its_program(environ):
        return _is_main_interpreter()
    if is_worker(argv):
        # A worker of a process that does not record (a sandbox, say) does not record either.
        kind, _, _ = program(argv)
        return kind == "script" or ancestor is None or ancestor[0] == parent
    launch = fingerprint(environ)
    if launch and (ancestor is None or ancestor[3] != launch):
        return True
    if is_rank_of_program(environ, argv) or (ancestor is not None and is_notebook_kernel(argv)):
        return True
    return is_launcher(command_line(parent))


def has_replaced_its_program(environ: Mapping[str, str]) -> bool:
    """Return whether this very process recorded already, and has replaced its program (``os.execv``)."""
    own = parse_marker(environ)
    return own is not None and own[0] == os.getpid()


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
