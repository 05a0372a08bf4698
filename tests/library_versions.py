"""Run each instrumented library's tests on the versions that tests/versions.toml names.

    python tests/library_versions.py [LIBRARY ...] [--agents] [--only oldest|latest|also] [--quick]

Each version gets an environment of its own under the cache folder (uv links the packages, so they cost little). Without
a name: the libraries that download no gigabytes and are no agents; the others are named one by one, or with --agents.
A version that has passed with the same sources is not run again with --agents, which takes half an hour.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads((ROOT / "tests" / "versions.toml").read_text())
AGENTS = tuple(name for name, row in TABLE.items() if row.get("agents"))
LIGHT = tuple(name for name, row in TABLE.items() if not row.get("gigabytes") and name not in AGENTS)
_TOOLS = ("--group", "unit", "--editable", ".[report]")


def pins(name: str, which: str, version: str) -> list[str]:
    """Requirements that make one row of the table."""
    row = TABLE[name]
    requirements = [f"{row.get('build', distribution(name))}=={version}", *row.get(f"with-{which}", [])]
    for other in row.get("together", []) if which in ("oldest", "latest") else []:
        requirements += [f"{distribution(other)}=={TABLE[other][which]}", *TABLE[other].get(f"with-{which}", [])]
    return requirements


def distribution(name: str) -> str:
    """Name on PyPI of the library in a row."""
    return str(TABLE[name].get("distribution", name))


def run(name: str, which: str, version: str, *, quick: bool) -> bool:
    """Make the environment and run the tests in it; `quick`: those that are marked so."""
    cache = Path(os.environ.get("OTEL_RL_CACHE_DIR") or Path.home() / ".cache" / "otel-rl")
    folder = cache / "library-versions" / f"{name}-{version}"
    uv = os.environ.get("UV", "uv")
    requirements = pins(name, which, version)
    print(f"+ {name} {version} ({which}): {' '.join(requirements)}", file=sys.stderr, flush=True)
    if not (folder / "bin" / "python").exists():
        subprocess.run([uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, folder], check=True)
    overrides = TABLE[name].get("overrides")
    options = ["--override", overrides] if overrides else []
    install = [uv, "pip", "install", "--quiet", "--python", folder, *options, *_TOOLS, *requirements]
    subprocess.run(install, cwd=ROOT, check=True)
    pytest = [folder / "bin" / "python", "-m", "pytest", "-q", *TABLE[name]["tests"]]
    return subprocess.run([*pytest, "-m", "quick"] if quick else pytest, cwd=ROOT, check=False).returncode == 0


def run_once(name: str, which: str, version: str, *, quick: bool) -> bool:
    """Like :func:`run`, unless this version has passed with these sources."""
    cache = Path(os.environ.get("OTEL_RL_CACHE_DIR") or Path.home() / ".cache" / "otel-rl")
    stamp = cache / "library-versions" / f"{name}-{version}" / "passed"
    sources = _digest(quick)
    if stamp.exists() and stamp.read_text() == sources:
        print(f"= {name} {version} ({which}) has passed with these sources", file=sys.stderr, flush=True)
        return True
    has_passed = run(name, which, version, quick=quick)
    if has_passed:
        stamp.write_text(sources)
    return has_passed


@functools.cache
def _digest(quick: bool) -> str:
    digest = hashlib.sha256(str(quick).encode())
    for folder in ("instrumentation/otel_rl", "tests/unit", "tests/support"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def main() -> int:
    """Run what was asked for and name what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", choices=[*TABLE, []], help="rows of tests/versions.toml")
    parser.add_argument("--agents", action="store_true", help="clients and agent libraries; resumed where it stopped")
    parser.add_argument("--only", choices=("oldest", "latest", "also"))
    parser.add_argument("--quick", action="store_true", help="only the tests that are marked `quick`")
    options = parser.parse_args()
    failed = []
    run_version = run_once if options.agents else run
    for name in options.libraries or (AGENTS if options.agents else LIGHT):
        row = TABLE[name]
        # Both ends may be one version, which then runs as the latest.
        versions = {
            row["oldest"]: "oldest",
            row["latest"]: "latest",
            **dict.fromkeys(row.get("also", []), "also"),
        }
        for version, which in versions.items():
            if options.only in (None, which) and not run_version(name, which, version, quick=options.quick):
                failed.append(f"{name} {version}")
    print(f"failed: {', '.join(failed)}" if failed else "every version passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
