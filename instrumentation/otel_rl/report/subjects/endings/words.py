"""Ends in words: what failed, where, in which step, whose failure it is, and what to do next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from otel_rl.ranks.postmortem.ranks import RankState
    from otel_rl.store.reader.uncaught_exceptions import UncaughtException


class KnownFailure(NamedTuple):
    """A failure that has a name; ``pattern`` is looked for in ``Type: message``."""

    pattern: re.Pattern[str]
    name: str
    next_step: str


def _known(pattern: str, name: str, next_step: str) -> KnownFailure:
    return KnownFailure(re.compile(pattern, re.IGNORECASE), name, next_step)


#: The first that fits counts.
KNOWN_FAILURES = (
    _known(
        r"(^|\.)OutOfMemoryError: |CUDA out of memory|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED",
        "The memory of the GPU was full.",
        "Lower the batch size or the length of completions, or use gradient checkpointing. The section on memory has"
        " the GPU's memory, where it was recorded.",
    ),
    _known(
        r"collective operation timeout|Watchdog caught|NCCL watchdog",
        "NCCL's watchdog gave up a collective: another rank was late, stuck or gone.",
        "Find the rank that did not enter it: `otel-rl postmortem`, with TORCH_FR_BUFFER_SIZE and"
        " TORCH_NCCL_DUMP_ON_TIMEOUT=1 for PyTorch's own dumps.",
    ),
    _known(
        r"\[Errno 28\]|No space left on device|\[Errno 122\]|Disk quota exceeded",
        "The machine: a disk or its quota was full.",
        "Make room there, or write checkpoints and caches (HF_HOME, TMPDIR) elsewhere.",
    ),
    _known(
        r"\[Errno 98\]|Address already in use|EADDRINUSE",
        "The machine: another process has the port.",
        "End the process that listens there (ss -ltnp), or choose another port (MASTER_PORT, --port).",
    ),
    _known(
        r"^MemoryError|DefaultCPUAllocator: |\[Errno 12\]|Cannot allocate memory",
        "The machine: its main memory, or the limit of the process, was exhausted.",
        "Compare the processes in the section on memory; lower what is loaded at once.",
    ),
    _known(
        r"^(\w+\.)*ConnectionRefusedError|\[Errno 111\]",
        "The network: nothing listened at the address.",
        "Check that the server runs, and its address and port.",
    ),
    _known(
        r"\[Errno -[23]\]|Name or service not known|Temporary failure in name resolution",
        "The network: a host name could not be resolved.",
        "Check the name, and whether the machine may reach that network.",
    ),
    _known(
        r"^(\w+\.)*ModuleNotFoundError",
        "The environment: a module is not installed, or not on the path.",
        "Install it into the environment that runs the program.",
    ),
    _known(
        r"^(\w+\.)*FileNotFoundError",
        "A file or folder does not exist.",
        "Check the path; a relative one begins in the working directory.",
    ),
    _known(r"^(\w+\.)*PermissionError", "A file or folder may not be accessed.", "Check its owner and mode."),
    _known(
        r"^(\w+\.)*(JSONDecodeError|UnicodeDecodeError|DatasetGenerationError|ArrowInvalid|DataFilesNotFoundError)",
        "The data could not be read.",
        "Check the record or file that was read then.",
    ),
)


#: What to do if `terminate()` ended a child before it delivered.
BEFORE_TERMINATE = (
    "What it recorded last may be lost. `with Pool(...) as pool:` ends its workers so: call pool.close() and"
    " pool.join() before the block ends."
)


def step(ring: RankState | None) -> str:
    """Return ``, during step 4, train``: where its flight recorder saw it last; empty where it has none."""
    if ring is None or ring.is_old_copy:
        return ""
    part = f", {ring.waited.words}" if ring.waited is not None else ""
    if ring.step is None:
        return part
    inside = f" ({' > '.join(ring.inside)})" if ring.inside and not part else ""
    return f", {'during' if ring.step_was_open else 'after'} step {ring.step}{inside}{part}"


def evidence(exception: UncaughtException) -> list[str]:
    """Return whose failure it is, in short sentences, only where that is sure."""
    known = known_failure(exception)
    sentences = [known.name] if known is not None else []
    if exception.library:
        own = f"; the program was at {exception.program_location}" if exception.program_location else ""
        sentences.append(f"Raised in the library {exception.library}{own}.")
    elif exception.location and known is None:
        sentences.append("Raised in the program's own code.")
    return sentences


def next_steps(exception: UncaughtException) -> list[str]:
    """Return what to do next, and where the stack is."""
    known = known_failure(exception)
    stack = ["The stack, in the section on errors."] if exception.stacktrace else []
    return [*([known.next_step] if known is not None else []), *stack]


def known_failure(exception: UncaughtException) -> KnownFailure | None:
    """Return the failure that has a name."""
    texts = [f"{exception.kind}: {exception.message}"]
    if exception.cause_kind:
        texts.insert(0, f"{exception.cause_kind}: {exception.cause_message}")
    return next((known for text in texts for known in KNOWN_FAILURES if known.pattern.search(text)), None)


def next_steps_of_signal(signal: str | None, oom_kills: int | None) -> list[str]:
    """Return what to do next after an end by a signal."""
    if signal == "SIGKILL" and oom_kills:
        return ["Raise the memory limit of the job, or lower what it holds: the section on memory shows who took it."]
    if signal == "SIGKILL":
        return ["The kernel's log (dmesg) and the scheduler's: out of memory, a time limit, or somebody's kill -9."]
    if signal == "SIGTERM":
        return ["The scheduler's log: preemption, a time limit, or a cancelled job."]
    if signal == "SIGABRT":
        return ["What it printed last: NCCL's watchdog ends a process so after a timeout, C++ after an exception."]
    if signal in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"):
        return ["A crash of compiled code: run it with PYTHONFAULTHANDLER=1 for the stack."]
    return []
