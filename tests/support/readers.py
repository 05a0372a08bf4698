"""Which tests only read recorded runs, so that one environment is enough for them.

What reads a run (report, live page, export, collector composition, boards, rules applied offline) uses the standard
library and its own extras. Nothing in it depends on the version of the SDK or of an instrumented library;
`tests/unit/readers` runs each reader once in every environment.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
_PACK = "otel_rl"
#: What reads, as modules of the pack.
READERS = tuple(
    f"{_PACK}.{name}"
    for name in ("cli", "collector", "export", "health", "live", "ranks", "report", "semconv", "store.reader")
)
#: These run in the training process, or ask which packages are installed. A test of the command ``otel-rl doctor``
#: imports ``otel_rl.cli`` alone: its name counts too.
_NO_READERS = tuple(f"{_PACK}.{name}" for name in ("cli.doctor", "health.live", "ranks.watchdog"))
#: Formats of files, shared by those who write and those who read; standard library only.
_LEAVES = tuple(
    f"{_PACK}.{name}"
    for name in ("core", "flight_recorder", "process.exit_records", "process.exit_status", "process.lifetime")
)
#: A file with this word starts a program that records, whatever it imports itself.
_RECORDS = "opentelemetry-instrument"
#: Fixtures of tests/conftest.py, which run the SDK.
_SDK_FIXTURES = {"io_thread", "pipeline", "recorded"}


def only_reads(file: Path) -> bool:
    """Return whether a test file tests readers or the repository's tools and nothing else.

    Its name, its imports and the programs that it starts decide.
    """
    modules = _imports(file)
    files = {file, *filter(None, map(_helper, modules))}
    ours = {name for one in files for name in _imports(one) if _below(name, (_PACK,))}
    if _SDK_FIXTURES & _fixtures(file) or "doctor" in file.name or any(map(_records, files)):
        return False
    if not ours:
        return any(name.partition(".")[0] in _repository_modules() for name in modules)
    reading = [name for name in ours if _below(name, READERS) and not _below(name, _NO_READERS)]
    return bool(reading) and all(name in reading or _below(name, _LEAVES) for name in ours)


def _below(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _records(file: Path) -> bool:
    return _RECORDS in file.read_text(encoding="utf-8")


def _imports(file: Path) -> set[str]:
    """Names of imported modules and objects, with their packages, anywhere in the file."""
    names = set()
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _fixtures(file: Path) -> set[str]:
    """Names of fixtures that the file asks for and does not define."""
    functions = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    asked = {argument.arg for function in functions for argument in function.args.args}
    return asked - {function.name for function in functions}


def _helper(name: str) -> Path | None:
    """File below tests/ that an imported name comes from."""
    for module in (name, name.rpartition(".")[0]):
        file = TESTS / f"{module.replace('.', '/')}.py"
        if module and file.is_file():
            return file
    return None


@cache
def _repository_modules() -> frozenset[str]:
    """Top-level modules of the repository that are no part of the pack: boards, registry, build scripts, benchmarks."""
    folders = ("otelcol-builder", "compose", "examples", "benchmarks")
    scripts = {file.stem for folder in folders for file in (ROOT / folder).glob("*.py")}
    return frozenset({"dashboards", "instrumentation", *scripts})
