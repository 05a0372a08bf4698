"""Plain loops of PyTorch under `opentelemetry-instrument`: on several ranks, compiled, and marked later."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from process_support import INSTRUMENT, SCRIPTS, Programs, plain

if TYPE_CHECKING:
    from process_support import Finished
    from warm_launcher import WarmLauncher

STEPS = 5
RANKS = """
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
torch.set_num_threads(1)
dist.init_process_group("gloo")

def train(model):
    optimizer = torch.optim.AdamW(model.parameters())
    for number in range(5):
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

train(nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))))
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
mesh = init_device_mesh("cpu", (2,))
for part in (model[0], model[2], model):
    fully_shard(part, mesh=mesh)
train(model)
dist.destroy_process_group()
from otel_rl.collectives import first_use
print(first_use.is_counted)
"""


def steps_by_trace(programs: Programs) -> dict[str, list[tuple[str, int]]]:
    """Trace id -> name and iteration of its steps, on any rank."""
    found = defaultdict(list)
    for span in programs.store.spans():
        if span["name"] in ("rl.loop", "rl.rank.step"):
            values = plain(span["attributes"])
            found[span["traceId"]].append((span["name"], values["rl.loop.iteration"]))
    return found


def test_ranks_meet_in_the_trace_of_each_guessed_step(programs: Programs) -> None:
    program = programs.write("program.py", RANKS)
    done = programs.run(INSTRUMENT, SCRIPTS / "torchrun", "--standalone", "--nproc-per-node=2", program, timeout=500)

    assert "no step" not in done.err, done.err
    # The last line of a loop without steps names what was counted.
    assert done.out == "True\n" * 2
    met = sorted(sorted(members) for members in steps_by_trace(programs).values())
    assert met == [
        [("rl.loop", number), ("rl.rank.step", number), ("rl.rank.step", number)] for number in range(1, 2 * STEPS + 1)
    ]
    ranks = [plain(span["attributes"]) for span in programs.store.spans() if span["name"] == "rl.rank.step"]
    calls = [
        {values["torch.distributed.calls"] for values in ranks if values["rl.loop.iteration"] == last}
        for last in (STEPS, 2 * STEPS)
    ]
    # Of FSDP: forward passes gather before the step is opened, which is part of it all the same.
    assert calls == [{1}, {6}]
    report = programs.otel_rl("report", programs.store.root, "-o", "page.html")
    assert "No step was recorded" not in report.err
    page = (programs.directory / "page.html").read_text()
    assert page.count("steps are guessed from optimizer steps") == 1


#: A model that only runs, one step that is compiled, and steps that the program marks later.
COMPILED = """
import sys, torch
model = torch.nn.Linear(4, 4)
with torch.no_grad(): model(torch.ones(2, 4))
is_recorded = "otel_rl" in sys.modules
if is_recorded:
    print([name for name in sys.modules if name.startswith(("otel_rl.health", "otel_rl.runtime_metrics.step"))])
    import otel_rl
    from otel_rl.ending import summary
    print(repr(summary._hint_of_steps()))
import torch._dynamo.utils as counts
torch.manual_seed(0)
optimizer = torch.optim.AdamW(model.parameters())
if is_recorded: print(summary._hint_of_steps())

@torch.compile(backend="eager")
def step():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()

for _ in range(12):
    step()
print(counts.counters["frames"]["total"], counts.counters["stats"]["unique_graphs"])
if is_recorded:
    model(torch.ones(2, 4)).sum().backward()
    for number in range(1, 4):
        with otel_rl.step(number):
            step()
            step()
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, launcher: WarmLauncher | None) -> tuple[Programs, Finished]:
    programs = Programs(tmp_path_factory.mktemp("compiled"), launcher)
    return programs, programs.instrumented(COMPILED, timeout=500)


def _sources_and_iterations(programs: Programs) -> list[tuple[str, int]]:
    found = [plain(span["attributes"]) for span in programs.store.spans() if span["name"] == "rl.rank.step"]
    return [(values["rl.loop.source"], values["rl.loop.iteration"]) for values in found]


def test_a_step_that_is_compiled_as_a_whole_is_counted_and_not_compiled_again(
    programs: Programs, compiled: tuple[Programs, Finished]
) -> None:
    before = programs.plain(COMPILED)
    recorded, after = compiled

    assert _sources_and_iterations(recorded)[:12] == [("guessed", number) for number in range(1, 13)]
    frames, graphs = map(int, after.out.splitlines()[-1].split())
    # Frames that are looked at once: a hook that dynamo followed would be looked at in each step.
    assert frames <= int(before.out.split()[0])
    assert graphs == int(before.out.split()[1])


def test_steps_that_the_program_marks_later_are_not_counted_twice(compiled: tuple[Programs, Finished]) -> None:
    recorded, _ = compiled

    assert _sources_and_iterations(recorded)[12:] == [("given", 1), ("given", 2), ("given", 3)]


def test_nothing_of_a_step_is_loaded_before_the_first(compiled: tuple[Programs, Finished]) -> None:
    modules, *_ = compiled[1].out.splitlines()

    assert modules == "[]"


def test_only_a_program_that_has_made_an_optimizer_is_told_of_steps_and_not_once_they_are_guessed(
    compiled: tuple[Programs, Finished],
) -> None:
    recorded, done = compiled
    _, without, with_optimizer, *_ = done.out.splitlines()

    assert without == "''"
    assert with_optimizer.startswith(" (an optimizer was made, and none made a step after a backward pass; ")
    assert "no step" not in done.err
    assert "No step was recorded" not in recorded.otel_rl("report", recorded.store.root).err
