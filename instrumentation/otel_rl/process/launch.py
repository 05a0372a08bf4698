"""What has to be fixed once per launch, before anything runs: the run id and an absolute data directory.

Imported by ``opentelemetry-instrument`` before it execs the program, so it imports only the standard library and
:mod:`otel_rl.stderr`.
"""

# ruff: noqa: PTH100, PTH111 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
import re
import time

from otel_rl import stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

RUN_ID = "OTEL_RL_RUN_ID"
DATA_DIRECTORY = "OTEL_RL_DATA_DIR"
NAME = "otel_rl"


def prepare(environ: MutableMapping[str, str], argv: Sequence[str] = ()) -> None:
    """Fix run id and data directory in ``environ``; what is set already stays."""
    if not environ.get(RUN_ID, "").strip():
        environ[RUN_ID] = launcher_job(environ, argv) or random_run_id()
    environ[DATA_DIRECTORY] = os.path.abspath(os.path.expanduser(environ.get(DATA_DIRECTORY, "").strip() or "otel-rl"))


def choose_distro(environ: MutableMapping[str, str]) -> None:
    """Choose our distro and configurator unless the user has chosen."""
    environ.setdefault("OTEL_PYTHON_DISTRO", NAME)
    if environ["OTEL_PYTHON_DISTRO"] == NAME:
        environ.setdefault("OTEL_PYTHON_CONFIGURATOR", NAME)


def launcher_job(environ: Mapping[str, str], argv: Sequence[str] = ()) -> str | None:
    """An id that all processes of the job find alone: the batch system's or the rendezvous'."""
    if job := environ.get("SLURM_JOB_ID"):
        step = environ.get("SLURM_STEP_ID")
        return f"slurm-{job}.{step}" if step else f"slurm-{job}"
    if azure := environ.get("AZUREML_RUN_ID"):
        return azure
    for candidate in (environ.get("TORCHELASTIC_RUN_ID"), environ.get("PET_RDZV_ID"), _rendezvous_id(argv)):
        if candidate and candidate != "none":
            return candidate
    return None


def _rendezvous_id(argv: Sequence[str]) -> str | None:
    for position, argument in enumerate(argv):
        found = re.fullmatch(r"--rdzv[-_]id(?:=(.*))?", argument)
        if found:
            return found[1] or (argv[position + 1] if position + 1 < len(argv) else None)
    return None


def random_run_id() -> str:
    """A new run id that sorts by start time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(4).hex()}"


def disabled(environ: Mapping[str, str]) -> bool:
    """Whether ``OTEL_SDK_DISABLED`` turns everything off."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


_failed = False


def tell_failure(error: Exception) -> None:
    """The set-up has failed, mostly since the SDK refuses a variable's value (some at its import); said once."""
    global _failed
    if not _failed:
        _failed = True
        reason = (str(error).strip().splitlines() or [""])[0]
        stderr.write_line(
            f"otel-rl: telemetry could not be set up ({type(error).__name__}: {reason}); nothing is recorded, check the"
            " OTEL_* variables"
        )
