"""A program whose first call of otel_rl is made by several threads at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.own_command import otel_rl

LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
PROGRAM = """
import sys
import threading
import otel_rl

began, entered = threading.Event(), threading.Event()

class HeldImport:
    def find_spec(self, name, path=None, target=None):
        if name == "otel_rl.api.model_calls":
            began.set()
            # Until the other thread is done, or as long as it waits for this one.
            entered.wait(1)

def second():
    began.wait()
    with otel_rl.rollout("second"):
        entered.set()

sys.meta_path.insert(0, HeldImport())
thread = threading.Thread(target=second)
thread.start()
with otel_rl.rollout("first"):
    pass
thread.join()
"""


def test_no_rollout_of_a_thread_is_lost_while_another_one_loads_the_recorder(tmp_path):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environ = {**kept, "OTEL_RL_RAISE_INTERNAL_ERRORS": "1", "OTEL_RL_DATA_DIR": "store"}
    subprocess.run([LAUNCHER, sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environ, timeout=120, check=True)

    rows = map(json.loads, otel_rl(tmp_path, "trajectories", "store").stdout.splitlines())
    assert sorted(row["rl.rollout.id"] for row in rows) == ["first", "second"]
