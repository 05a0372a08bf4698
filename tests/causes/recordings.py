"""Recording a case into a folder, once for the same program and the same recording side of the package."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from causes.cases import Case

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = HERE / "programs"
SCRIPTS = Path(sys.executable).parent
PACKAGE = ROOT / "instrumentation" / "otel_rl"
#: Parts of the package that read what was recorded: a change of these needs no new recording.
READERS = tuple(map(Path, ("cli", "live", "export", "report", "replay", "store/reader", "store/tables")))
CACHE = Path(os.environ.get("OTEL_RL_CACHE_DIR") or Path.home() / ".cache" / "otel-rl") / "causes"
#: Packages that the test environment lacks; without their dependencies, which it has.
EXTRAS = ("pytorch-lightning==2.6.6", "lightning-utilities", "torchmetrics", "stable-baselines3==2.9.2", "cloudpickle")
TIMEOUT = 240
OUTPUT = "output.txt"


def extras() -> Path:
    """Return the folder with the packages of :data:`EXTRAS`, made once."""
    folder = CACHE / ("packages-" + hashlib.sha256(repr((EXTRAS, sys.version)).encode()).hexdigest()[:8])
    if not folder.exists():
        scratch = folder.with_suffix(".new")
        command = [os.environ.get("UV", "uv"), "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
        subprocess.run([*command, "--target", scratch, *EXTRAS], check=True, timeout=600)
        scratch.rename(folder)
    return folder


def model() -> Path:
    """Return the folder of the tiny model that the jobs of TRL begin with, made once."""
    script = ROOT / "tests" / "health" / "answering_model.py"
    folder = CACHE / ("model-" + hashlib.sha256(script.read_bytes()).hexdigest()[:8])
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "examples")}
        subprocess.run([sys.executable, script, folder], check=True, env=environ, timeout=TIMEOUT, capture_output=True)
    return folder


def record(case: Case, programs: Path) -> Path:
    """Return the folder of the recorded case; records it if that has not been done with these sources.

    The run is in ``otel-rl/<name>``, what the program printed in ``output.txt``.
    """
    folder = CACHE / f"{case.name}-{_digest(case, programs)}"
    if not (folder / "status").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        statuses = _run(case, programs, folder)
        for wanted, found in zip(case.statuses, statuses, strict=True):
            if wanted is not None and wanted != found:
                tail = (folder / OUTPUT).read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{case.name} ended with {found}:\n{tail}")
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        (folder / "status").write_text(" ".join(map(str, statuses)))
    return folder


def _digest(case: Case, programs: Path) -> str:
    digest = hashlib.sha256(
        repr(
            (
                case.program,
                case.arguments,
                case.bug,
                case.ranks,
                case.attempts,
                case.beside,
                case.beside_after,
                case.environ,
            )
        ).encode()
    )
    sources = [*PROGRAMS.glob("*.py"), *(programs.glob("*.py") if programs != PROGRAMS else ())]
    wanted = {programs / case.program, *(file for file in sources if file.stem in imported(programs / case.program))}
    for file in sorted({*wanted, *_package()}):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:10]


def imported(script: Path) -> set[str]:
    """Names of programs that a script imports or starts, and those that they do."""
    found: set[str] = set()
    todo = [script]
    while todo:
        text = todo.pop().read_text()
        for file in {*PROGRAMS.glob("*.py"), *script.parent.glob("*.py")}:
            if file.stem not in found and re.search(
                rf"^(from|import) {file.stem}\b|\"{file.name}\"", text, re.MULTILINE
            ):
                found.add(file.stem)
                todo.append(file)
    return found


def _package() -> Iterator[Path]:
    for file in PACKAGE.rglob("*.py"):
        if not any(map(file.relative_to(PACKAGE).is_relative_to, READERS)):
            yield file


def _run(case: Case, programs: Path, folder: Path) -> list[int]:
    """Exit statuses of the attempts."""
    (folder / "ring").mkdir()
    with contextlib.ExitStack() as stack:
        for _ in range(case.beside):
            work = f"import time; time.sleep({case.beside_after})\nwhile True: pass"
            stack.callback(_stop, subprocess.Popen([sys.executable, "-c", work]))
        output = stack.enter_context((folder / OUTPUT).open("wb"))
        return [_attempt(case, programs, folder, output, more) for more in case.attempts]


def _attempt(case: Case, programs: Path, folder: Path, output, more: tuple[str, ...]) -> int:
    launcher = [sys.executable]
    if case.ranks:
        launcher = [SCRIPTS / "torchrun", "--standalone", f"--nproc-per-node={case.ranks}"]
    script = programs / case.program
    arguments = [str(model()) if one == "MODEL" else one for one in case.arguments]
    job = subprocess.Popen(
        [SCRIPTS / "opentelemetry-instrument", *launcher, script, *arguments, *more],
        cwd=folder,
        env=_environ(case, programs, folder),
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return job.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        job.send_signal(signal.SIGTERM)
        raise
    finally:
        _stop(job)


def _stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environ(case: Case, programs: Path, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON", "OPENAI_"))}
    path = (programs, PROGRAMS, ROOT / "examples", extras())
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PATH": f"{SCRIPTS}{os.pathsep}{kept.get('PATH', '')}",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "MPLCONFIGDIR": str(folder),
        "PYTHONWARNINGS": "ignore",
        "CAUSES_BUG": case.bug,
        "OTEL_RL_DATA_DIR": str(folder / "otel-rl"),
        "OTEL_RL_RUN_ID": case.name,
        "OTEL_RL_RING_DIR": str(folder / "ring"),
        **dict(case.environ),
    }
