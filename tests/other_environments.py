"""Run the unit tests that depend on packages or on the interpreter, on the oldest or the newest of these.

    python tests/other_environments.py oldest | newest [FOLDER or FILE ...]

Environments are `.venv-oldest` and `.venv-newest`; they hold no torch, so tests that need it are skipped there (the
main environment runs them). Interpreters are looked for on PATH and among pyenv's versions; none is downloaded.
:mod:`support.readers` chooses the tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import tomllib
from support.readers import only_reads

ROOT = Path(__file__).resolve().parents[1]
OLDEST_SUPPORTED = (3, 10)
#: These test the repository itself, which no interpreter or package changes.
OF_THE_REPOSITORY = ("benchmarks", "docs", "hosts", "repository", "structure")
#: The folder of the tests that run each reader once.
EACH_READER = "readers"
FOLDERS = ("tests/unit", "tests/conformance")
_OURS = ("--editable", ".[live,dashboards,collector]")


def light_distributions() -> list[str]:
    """The libraries of tests/versions.toml that download no gigabytes, and their companions."""
    names = []
    for name, row in tomllib.loads((ROOT / "tests" / "versions.toml").read_text()).items():
        if not row.get("gigabytes") and not row.get("own_environment"):
            names += [row.get("distribution", name), *row.get("with-oldest", [])]
    return list(dict.fromkeys(re.split(r"[<=>~! ]", name)[0] for name in names))


#: The official GenAI instrumentors need a newer SDK than our oldest, so they are not in the oldest environment.
_OLD_CLIENTS = (*light_distributions(), "opentelemetry-distro")
PACKAGES = {
    "oldest": ("--group", "unit", *_OLD_CLIENTS, *_OURS),
    "newest": ("--group", "clients", *_OURS),
}


class Interpreter(NamedTuple):
    """A Python at hand."""

    version: tuple[int, int]
    path: Path


def _candidates() -> list[Path]:
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted((pyenv / "versions").glob("*/bin"))
    return [Path(sys.executable)] + [
        file for folder in folders if folder.is_dir() for file in folder.glob("python3.*") if _is_python(file.name)
    ]


def _is_python(name: str) -> bool:
    return re.fullmatch(r"python3\.\d+", name) is not None


def interpreters() -> list[Interpreter]:
    """Supported interpreters that really start, oldest first (a pyenv shim may stand for none)."""
    found = {}
    for path in _candidates():
        command = [path, "-c", "import sys; print(*sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            major, minor = map(int, done.stdout.split())
            found.setdefault((major, minor), path)
    return [Interpreter(version, path) for version, path in sorted(found.items()) if version >= OLDEST_SUPPORTED]


def environment(name: str, interpreter: Interpreter, requirements: list[str]) -> Path:
    """The virtual environment ``.venv-<name>``, made or brought up to date; returns its python."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    uv = os.environ.get("UV", "uv")
    if not python.exists():
        subprocess.run(
            [uv, "venv", "--quiet", "--no-python-downloads", "--python", interpreter.path, folder], check=True
        )
    subprocess.run([uv, "pip", "install", "--quiet", "--python", folder, *requirements], cwd=ROOT, check=True)
    return python


def left_out() -> list[str]:
    """Test files of readers, beyond one look at each, and of the repository: one environment is enough for them."""
    return sorted(
        str(file.relative_to(ROOT))
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("test_*.py")
        if file.parent.name in OF_THE_REPOSITORY or (file.parent.name != EACH_READER and only_reads(file))
    )


def main() -> int:
    """Run the tests; the exit status is pytest's."""
    which = sys.argv[1] if sys.argv[1:] else ""
    if which not in PACKAGES:
        sys.exit(f"other_environments: there is no environment {which!r}; name one of: {', '.join(PACKAGES)}")
    at_hand = interpreters()
    interpreter = at_hand[0] if which == "oldest" else at_hand[-1]
    constraints = f"tests/constraints/{'oldest' if which == 'oldest' else 'latest'}.txt"
    print(f"{which}: Python {'.'.join(map(str, interpreter.version))}, {constraints}", file=sys.stderr)
    if which == "oldest" and interpreter.version != OLDEST_SUPPORTED:
        print("Python 3.10 is not at hand: the oldest supported interpreter stays untested here", file=sys.stderr)
    python = environment(which, interpreter, ["--constraint", constraints, *PACKAGES[which]])
    asked = sys.argv[2:]
    chosen = asked or [*(f"--ignore={file}" for file in left_out()), *FOLDERS]
    options = ["-q", "--numprocesses", "4", "--dist", "loadfile"]
    return subprocess.run([python, "-m", "pytest", *options, *chosen], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
