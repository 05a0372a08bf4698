"""CPU time that a log call of 30 values takes on the thread that makes it, beside the tracker's own.

    python benchmarks/tracker_call.py [--output FILE]

``one call``: a tracker that takes a dictionary and does nothing with it, behind the wrapper and the hooks that
Weights & Biases has. ``30 calls``: tensorboardX, which takes one value a call. The process runs under
``opentelemetry-instrument`` and writes files, as users have it; what an I/O thread does with the values is not in the
figure. Rounds with and without us alternate; the figure is the median of the differences.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile

from figures import bootstrap, finish, instrumented

ROUNDS, CALLS = 100, 200
#: In us, of a call of 30 values.
LIMIT = 20
PROGRAM = """
import json, sys, time, types
import tensorboardX
import otel_rl
from otel_rl.instrumentors import tensorboardx
from otel_rl.instrumentors.patching import Patches
from otel_rl.instrumentors.wandb import patch

rounds, calls, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
values = {f"train/key_{number}": float(number) for number in range(30)}

class Run:
    _local_step = 0
    def __init__(self):
        self._config = types.SimpleNamespace(as_dict=dict)
    def _log(self, data, step=None, commit=None):
        self._local_step += 1

def dictionary(run):
    run._log(values)

class Nothing:
    def add_summary(self, *_, **__):
        pass

def single(writer):
    for key, value in values.items():
        writer.add_scalar(key, value, writer.step)
    writer.step += 1

def spent(call, target):
    began = time.thread_time_ns()
    for _ in range(calls):
        call(target)
    return (time.thread_time_ns() - began) / calls / 1000

def measure(call, target, put, take):
    found = []
    for number in range(rounds):
        with_us = number % 2 == 0
        first = second = 0.0
        for observed in (with_us, not with_us):
            if observed:
                put()
                call(target)
                second = spent(call, target)
                take()
                if number % 2 == 0:
                    otel_rl.flush(5)
            else:
                call(target)
                first = spent(call, target)
        found.append(second - first)
    return found

patches = Patches()
module = types.SimpleNamespace(Run=Run)
writer = tensorboardX.SummaryWriter(folder)
writer.step = 0
# What TensorBoard does with a value is no part of it, and would hide it.
writer._get_file_writer = Nothing
ours = tensorboardx.TensorboardXInstrumentor()
results = {
    "one call": measure(dictionary, Run(), lambda: patch.patch_run(module, patches), patches.restore),
    "30 calls": measure(single, writer, ours.instrument, ours.uninstrument),
}
print(json.dumps(results))
"""


def main() -> int:
    """Run the program and judge what it prints."""
    settings = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "otel_rl_tensorboardx", "OTEL_RL_QUIET": "true"}
    with tempfile.TemporaryDirectory() as folder:
        given = ["-c", PROGRAM, str(ROUNDS), str(CALLS), folder]
        printed = instrumented(*given, folder=folder, OTEL_RL_DATA_DIR=folder, **settings)
    samples = json.loads(printed.splitlines()[-1])
    figures = {f"{name}: us": bootstrap(values, statistics.median) for name, values in samples.items()}
    figures["one call: us"]["limit"] = LIMIT
    return finish("tracker_call", figures, samples, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
