"""Kernels in the dispatcher of the real PyTorch: they count what Python does not issue, and change nothing."""

from __future__ import annotations

import threading
import time

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from otel_rl.collectives.mode import CHEAP_STEPS  # noqa: E402
from otel_rl.collectives.recorder import SlotKey  # noqa: E402
from otel_rl.core import instrumentor_status, settings  # noqa: E402
from otel_rl.instrumentors.torch_distributed import TorchDistributedInstrumentor, dispatcher, patch  # noqa: E402
from otel_rl.semconv import attributes, metrics, spans  # noqa: E402
from otel_rl.telemetry import Scope  # noqa: E402
from otel_rl.training import steps  # noqa: E402

REDUCER, FUNCTIONAL = (
    SlotKey("all_reduce", "default_pg", 1, attributes.TorchDistributedSourceValues.REDUCER),
    SlotKey("all_reduce", "default_pg", 1, attributes.TorchDistributedSourceValues.FUNCTIONAL),
)


@pytest.fixture
def instrumentor(recorded):
    instrumentor = TorchDistributedInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    patch.collectives().recorder.reset()
    yield instrumentor
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


@pytest.fixture
def group(instrumentor):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.fixture
def watched(group):
    """A group whose collectives are all seen."""
    patch.kernels().install()
    yield group
    patch.kernels().remove()


def values():
    """What was counted: group -> calls, bytes, ns launching, ns waiting."""
    return {group: counted for group, counted in patch.collectives().recorder.values() if counted[0]}


def in_a_step(iteration, work):
    steps.begin(iteration, Scope("test"))
    work()
    steps.finish()


def attributes_of_steps(recorded):
    return [span.attributes for span in recorded.spans if span.name == spans.RL_RANK_STEP.type]


def backward(model):
    model(torch.ones(1, 4)).sum().backward()


def test_the_reducer_is_counted_with_its_bytes_and_its_wait(watched):
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    patch.collectives().recorder.reset()

    backward(model)

    ((found, (calls, size, launched, waited)),) = values().items()
    assert found == REDUCER
    assert (calls, size) == (1, 4 * (16 + 4))
    assert launched > 0
    assert waited > 0


def test_the_time_that_the_reducer_waits_is_counted_once_per_backward_pass(watched, monkeypatch):
    waits = []
    monkeypatch.setattr(patch.collectives().recorder, "add_wait", lambda *given: waits.append(given))
    # Buckets of one parameter each.
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3))), bucket_cap_mb=0)

    for _ in range(3):
        backward(model)

    assert len(waits) == 3


def test_a_functional_collective_is_counted_with_its_wait(watched):
    given = torch.ones(4)

    result = functional.all_reduce(given, "sum", watched) + 1

    assert torch.equal(result, torch.full((4,), 2.0))
    ((found, (calls, size, launched, waited)),) = values().items()
    assert found == FUNCTIONAL
    assert (calls, size) == (1, 16)
    assert launched > 0
    assert waited > 0


def test_results_that_nobody_waits_for_do_not_pile_up(watched, monkeypatch):
    monkeypatch.setattr(dispatcher, "MAXIMUM_PENDING", 2)
    kept = [functional.all_reduce(torch.ones(4), "sum", watched) for _ in range(5)]

    assert len(patch.kernels()._results) == 2
    for tensor in kept:
        functional.wait_tensor(tensor)


def test_what_python_issues_is_not_counted_twice(watched):
    dist.all_reduce(torch.ones(4))
    dist.all_reduce(torch.ones(4), async_op=True).wait()

    assert {found: counted[0] for found, counted in values().items()} == {SlotKey("all_reduce", "default_pg", 1): 2}


def test_a_thread_that_python_marks_marks_no_other(watched):
    """The reducer may issue one while another thread is in a method of a process group."""
    inside, done = threading.Event(), threading.Event()

    def issue():
        inside.wait(60)
        functional.all_reduce(torch.ones(4), "sum", watched).sum()
        done.set()

    thread = threading.Thread(target=issue)
    thread.start()
    method = patch.kernels()._recorder.recording("barrier", None, lambda *_: (inside.set(), done.wait(60)))
    method(watched)
    thread.join()

    assert FUNCTIONAL in values()


def test_a_compiler_that_traces_the_program_issues_nothing(watched):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        functional.all_reduce(torch.ones(4), "sum", watched)

    assert values() == {}


def test_errors_are_those_of_pytorch(watched):
    def failure():
        with pytest.raises(RuntimeError) as caught:
            functional.all_reduce(torch.ones(4), "no such reduction", watched)
        return str(caught.value).splitlines()[0]

    with_kernels = failure()
    patch.kernels().remove()

    assert failure() == with_kernels


def test_the_kernels_come_off_and_on_again(watched):
    patch.kernels().remove()
    functional.all_reduce(torch.ones(4), "sum", watched).sum()
    assert values() == {}

    patch.kernels().install()
    functional.all_reduce(torch.ones(4), "sum", watched).sum()
    assert values()[FUNCTIONAL][0] == 1


def test_a_program_that_wraps_a_model_is_watched_from_the_first_step_on(group, recorded):
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    in_a_step(1, lambda: backward(model))

    (found,) = attributes_of_steps(recorded)
    assert found[attributes.TORCH_DISTRIBUTED_CALLS] == 1
    assert attributes.TORCH_DISTRIBUTED_UNSEEN not in found
    points = recorded.metrics()[metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS.name]
    assert {"reducer"} <= {point.attributes[attributes.TORCH_DISTRIBUTED_SOURCE] for point in points}


def test_functional_collectives_are_counted_after_a_few_steps_with_them(group, recorded):
    def work():
        # 70 microseconds are 0.5 % of 14 ms.
        time.sleep(0.03)
        functional.all_reduce(torch.ones(4), "sum", group).sum()

    for iteration in range(1, CHEAP_STEPS + 2):
        in_a_step(iteration, work)

    *before, after = attributes_of_steps(recorded)
    assert [found[attributes.TORCH_DISTRIBUTED_UNSEEN] for found in before] == [1] * CHEAP_STEPS
    assert attributes.TORCH_DISTRIBUTED_UNSEEN not in after
    assert after[attributes.TORCH_DISTRIBUTED_CALLS] == 1


def test_threads_that_reduce_at_once_have_a_wait_each(watched, monkeypatch):
    waits = []
    monkeypatch.setattr(patch.collectives().recorder, "add_wait", lambda *given: waits.append(given))
    # Each backward pass stays in its first hook until the other one is there.
    meeting = threading.Barrier(2, timeout=60)
    models = [
        DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3))), bucket_cap_mb=0)
        for _ in range(2)
    ]
    for model in models:
        backward(model)  # puts the buckets in their order
    waits.clear()

    def meet(_):
        meeting.wait()

    def run(model):
        loss = model(torch.ones(1, 4, requires_grad=True)).sum()
        next(model.module[2].parameters()).register_hook(meet)
        loss.backward()

    threads = [threading.Thread(target=run, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(waits) == 2


def kernels_of(operator):
    """Tell whether the operator has a kernel of ours."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"c10d::{operator}", "BackendSelect")


def test_uninstrumenting_takes_the_kernels_off(group, instrumentor):
    DistributedDataParallel(torch.nn.Linear(4, 4))
    assert patch.kernels().covers("all_reduce")
    assert kernels_of("allreduce_")

    instrumentor.uninstrument()

    assert not patch.kernels().covers("all_reduce")
    assert not kernels_of("allreduce_")


def test_ddp_alone_makes_no_other_collective_of_python_pass_a_kernel(group):
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    assert kernels_of("allreduce_")
    assert kernels_of("broadcast_")
    assert not kernels_of("allgather_")
    patch.collectives().recorder.reset()

    in_a_step(1, lambda: backward(model))
    dist.all_gather([torch.ones(4)], torch.ones(4))
    dist.all_reduce(torch.ones(4))

    counted = {(group.operation, group.source): calls for group, (calls, *_) in values().items()}
    assert counted == {("all_reduce", "reducer"): 1, ("all_gather", "python"): 1, ("all_reduce", "python"): 1}


def test_a_model_that_ddp_wraps_inside_a_step_leaves_nothing_unseen(group, recorded):
    in_a_step(1, lambda: backward(DistributedDataParallel(torch.nn.Linear(4, 4))))

    [step] = attributes_of_steps(recorded)
    assert attributes.TORCH_DISTRIBUTED_UNSEEN not in step


def test_beside_ddp_a_functional_collective_is_not_taken_for_one_of_the_reducer(group):
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    patch.collectives().recorder.reset()

    backward(model)
    functional.all_reduce(torch.ones(4), "sum", group).wait()

    assert {group.source: calls for group, (calls, *_) in values().items()} == {"reducer": 1, "functional": 1}


def test_a_program_with_ddp_whose_other_collectives_are_not_seen_has_all_kernels_after_some_steps(group, monkeypatch):
    monkeypatch.setattr("otel_rl.collectives.mode.LARGEST_SHARE", 1.0)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))

    def work():
        backward(model)
        functional.all_gather_tensor(torch.ones(4), 0, group).wait()
        time.sleep(0.01)

    for iteration in range(1, CHEAP_STEPS + 1):
        in_a_step(iteration, work)
    assert patch.kernels().installed
    patch.collectives().recorder.reset()
    in_a_step(CHEAP_STEPS + 1, work)

    assert {group.source: calls for group, (calls, *_) in values().items()} == {"reducer": 1, "functional": 1}


def test_kernels_that_cannot_all_be_put_on_leave_those_that_are_on(group, monkeypatch):
    DistributedDataParallel(torch.nn.Linear(4, 4))
    make = patch.kernels()._collective

    def fail_at_the_last(torch, operator, known):
        if known.name == "barrier":
            raise RuntimeError("of the test")
        return make(torch, operator, known)

    monkeypatch.setattr(patch.kernels(), "_collective", fail_at_the_last)
    with pytest.raises(RuntimeError, match="of the test"):
        patch.kernels().install()

    assert kernels_of("allreduce_")
    assert not kernels_of("allgather_")
    assert patch.kernels().covers("all_reduce")
    assert not patch.kernels().covers("all_gather")
    assert not patch.kernels().installed


def test_kernels_that_were_put_on_by_hand_come_off_too(watched, instrumentor):
    instrumentor.uninstrument()
    assert not patch.kernels().installed

    instrumentor.instrument(skip_dep_check=True)
    patch.kernels().install()
    dist.all_reduce(torch.ones(4))
    assert values()[SlotKey("all_reduce", "default_pg", 1)][0] == 1
    assert REDUCER not in values()


def test_all_watches_from_the_process_group_on(recorded, monkeypatch):
    monkeypatch.setenv("OTEL_RL_COLLECTIVES", "all")
    settings.reset()
    instrumentor = TorchDistributedInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    try:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        assert patch.kernels().installed
        dist.destroy_process_group()
    finally:
        instrumentor.uninstrument()
        settings.reset()


def test_a_pytorch_without_the_names_is_degraded_and_says_why(group, recorded, monkeypatch):
    monkeypatch.setattr(patch.kernels(), "_works", False)
    monkeypatch.delattr(c10d.ProcessGroup, "unbox")

    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    in_a_step(1, lambda: backward(model))

    outcome = instrumentor_status.snapshot()["otel_rl_torch_distributed"]
    assert outcome["state"] == instrumentor_status.DEGRADED
    assert "collectives of C++ code cannot be counted" in outcome["reason"]
    (found,) = attributes_of_steps(recorded)
    assert found[attributes.TORCH_DISTRIBUTED_UNSEEN] >= 1
