"""Programs on a GPU compute what they compute without us, wait for it no more often, and are recorded."""

from __future__ import annotations

import json

import pytest

BATCHES = 40
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1")


@pytest.mark.parametrize("kind", ["eager", "scaler", "compiled"])
def test_losses_are_the_same_and_each_optimizer_step_is_a_step(run, kind: str) -> None:
    before = json.loads(run("plain_loop.py", str(BATCHES), kind, watched=False).out)
    watched = run("plain_loop.py", str(BATCHES), kind, watched=True)
    after = json.loads(watched.out)

    # Two plain runs of compiled kernels differ in the sixth digit.
    exact = pytest.approx(before["losses"], rel=1e-5) if kind == "compiled" else before["losses"]
    assert after["losses"] == exact
    assert after["steps"] == before["steps"]
    assert watched.numbers() == list(range(1, after["steps"] + 1))


def test_a_step_in_a_cuda_graph_runs_as_before_and_is_recorded_while_it_is_captured_only(run) -> None:
    before = json.loads(run("plain_loop.py", str(BATCHES), "graphed", watched=False).out)
    watched = run("plain_loop.py", str(BATCHES), "graphed", watched=True)

    assert json.loads(watched.out)["losses"] == before["losses"]
    # Three to warm up, and the capture: a replay calls nothing of Python.
    assert watched.numbers() == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_ranks_on_nccl_compute_the_same_and_their_collectives_are_counted(run, kind: str) -> None:
    before = json.loads(run(*TORCHRUN, "nccl_loop.py", kind, watched=False).out)
    watched = run(*TORCHRUN, "nccl_loop.py", kind, watched=True)

    assert json.loads(watched.out) == before
    assert watched.numbers() == list(range(1, 9))
    assert watched.largest("torch.distributed.collective.calls") >= 8


@pytest.mark.parametrize("program", [("nccl_loop.py", "ddp"), ("nccl_loop.py", "fsdp"), ("nccl_graph.py",)])
def test_the_time_of_each_collective_on_the_device_is_published(run, program: tuple[str, ...]) -> None:
    before = run(*TORCHRUN, *program, watched=False).out
    watched = run(*TORCHRUN, *program, watched=True, OTEL_RL_NCCL_TIMING="on")

    assert watched.out == before
    rows = watched.columns("torch.distributed.collectives", "torch.distributed.collective.")
    assert len(rows["number"]) >= 8
    assert all(0 < float(seconds) < 5 for seconds in rows["duration"])
    assert set(rows["operation"]) <= {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"}


def test_a_job_on_nccl_without_timing_says_so(run) -> None:
    watched = run(*TORCHRUN, "nccl_loop.py", "ddp", watched=True)

    assert watched.columns("torch.distributed.collectives", "torch.distributed.collective.") == {}
    assert watched.values("torch.distributed.collectives", "torch.distributed.timing") == ["off"]


def test_memory_of_the_gpu_and_the_gpu_itself_are_measured(run) -> None:
    # The driver's share of busy time is that of its last moments: one reading at the end would miss it.
    watched = run("plain_loop.py", "400", "eager", watched=True, OTEL_METRIC_EXPORT_INTERVAL="500")

    assert watched.largest("rl.cuda.memory.usage") > 2**20
    assert watched.largest("rl.cuda.memory.peak") >= watched.largest("rl.cuda.memory.usage") / 2
    assert watched.largest("hw.gpu.memory.limit") > 2**30
    assert 0 < watched.largest("hw.gpu.utilization") <= 1
    assert watched.largest("hw.power") > 10
    assert 10 < watched.largest("hw.temperature") < 120


def test_a_program_that_runs_out_of_memory_is_told_from_others(run) -> None:
    watched = run("out_of_memory.py", watched=True, expected=1)

    assert watched.numbers()[:3] == [1, 2, 3]
    assert watched.largest("rl.cuda.ooms") >= 1
    assert "OutOfMemoryError" in json.dumps(watched.records)
