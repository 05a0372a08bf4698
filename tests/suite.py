"""Runs pytest; what failed runs once more, alone.

Many tests start programs of several processes and threads beside each other, on two cores. Such a machine may stop a
program for a second in any place, and one of ten thousand tests fails for that. A test that also fails alone is a
failure; one that passes alone is named, so that it can be mended.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The exit statuses of pytest that say that all passed, and that some test failed.
PASSED, FAILED = 0, 1
#: More failures than this have a cause of their own: they are not run again.
MOST_FAILURES = 10


def run(python: str, *arguments: str) -> int:
    """Run pytest of ``python`` with the arguments; return the exit status, of the second run where there was one."""
    with tempfile.TemporaryDirectory(prefix="otel-rl-suite-") as cache:
        command = [python, "-m", "pytest", "-o", f"cache_dir={cache}"]
        status = subprocess.run([*command, *arguments], cwd=ROOT, check=False).returncode
        if status != FAILED:
            return status
        failed = _last_failed(cache)
        if not 0 < len(failed) <= MOST_FAILURES:
            return status
        again = subprocess.run([*command, "-q", "--numprocesses", "0", *failed], cwd=ROOT, check=False).returncode
    if again == PASSED:
        print("Failed beside other tests, passed alone:", *failed, sep="\n  ", file=sys.stderr)
    return again


def _last_failed(cache: str) -> list[str]:
    return sorted(json.loads((Path(cache) / "v" / "cache" / "lastfailed").read_text()))


if __name__ == "__main__":
    sys.exit(run(sys.executable, *sys.argv[1:]))
