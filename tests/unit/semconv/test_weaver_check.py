"""`weaver-check.sh` says that it is skipped, and tells a fault from the tool's remark on its own form."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "instrumentation" / "registry" / "weaver-check.sh"
UNSTABLE = "  \u00d7 File format `definition/2` is not yet stable: registry/run.yaml"
FAULT = "  \u00d7 The group name `rl.run` is declared multiple times"


def run(folder, *, output=None, status=0):
    """Run the script with a stand-in for weaver, which the package registries do not carry, or with none."""
    if output is not None:
        weaver = folder / "weaver"
        weaver.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {status}\n")
        weaver.chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_without_weaver_it_says_that_it_is_skipped(tmp_path):
    done = run(tmp_path)

    assert done.returncode == 0
    assert done.stdout.startswith("weaver-check: skipped, weaver is not on PATH")


def test_a_sound_registry_passes(tmp_path):
    assert run(tmp_path, output="no policy violation").returncode == 0


def test_the_remark_on_the_unstable_form_alone_passes(tmp_path):
    assert run(tmp_path, output=UNSTABLE, status=1).returncode == 0


def test_a_fault_beside_the_remark_fails_and_is_shown(tmp_path):
    done = run(tmp_path, output=f"{UNSTABLE}\n{FAULT}", status=1)

    assert done.returncode == 1
    assert FAULT in done.stdout


def test_a_failure_without_a_diagnostic_fails(tmp_path):
    assert run(tmp_path, output="panicked", status=101).returncode == 101
