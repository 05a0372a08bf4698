"""Patching the real ``torch.distributed``: everything is counted, nothing behaves differently, all is restored."""

from __future__ import annotations

import inspect
import re
import sys

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402

from otel_rl.core import settings  # noqa: E402
from otel_rl.instrumentors.torch_distributed import TorchDistributedInstrumentor, patch  # noqa: E402
from otel_rl.instrumentors.torch_distributed.operations import METHODS  # noqa: E402
from otel_rl.process import process_identity  # noqa: E402
from otel_rl.semconv import attributes, metrics  # noqa: E402


def dictionaries():
    owners = (c10d.ProcessGroup, c10d.Work, c10d, dist)
    return {owner: dict(vars(owner)) for owner in owners}


@pytest.fixture
def originals():
    return dictionaries()


@pytest.fixture
def instrumentor(originals, recorded):
    instrumentor = TorchDistributedInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    yield instrumentor
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


@pytest.fixture
def group(instrumentor):
    patch.collectives().recorder.reset()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def counts():
    """What was counted, by operation."""
    return {group.operation: values for group, values in patch.collectives().recorder.values() if values[0]}


@pytest.mark.parametrize("operation", ["allreduce", "broadcast", "barrier", "monitored_barrier"])
def test_a_class_in_python_that_inherits_a_method_calls_pytorchs_once(group, operation):
    class Wrapped(dist.ProcessGroup):
        def getBackendName(self):  # noqa: N802 - of PyTorch
            return "none"

    of_operation = {
        "allreduce": ([torch.ones(2)],),
        "broadcast": ([torch.ones(2)],),
        "monitored_barrier": (None, False),
    }
    with pytest.raises(RuntimeError) as error:
        getattr(Wrapped(0, 1), operation)(*of_operation.get(operation, ()))
    # PyTorch finds no back end; it was an endless recursion.
    assert type(error.value) is not RecursionError


def test_every_patched_attribute_is_restored_to_the_very_object(instrumentor, originals):
    changed = [
        (owner, name)
        for owner, before in originals.items()
        for name, value in vars(owner).items()
        if before.get(name) is not value
    ]
    assert (c10d.ProcessGroup, "allreduce") in changed
    assert (c10d.Work, "wait") in changed
    assert (c10d, "init_process_group") in changed
    assert (dist, "init_process_group") in changed

    instrumentor.uninstrument()

    for owner, before in originals.items():
        after = vars(owner)
        assert [name for name, value in before.items() if after.get(name) is not value] == []
        assert set(after) == set(before)


def test_a_copy_made_after_patching_is_restored_too(instrumentor, originals):
    # The way a fresh program gets it: `from .distributed_c10d import *` runs after our import hook.
    wrapper = c10d.init_process_group
    dist.init_process_group = originals[dist]["init_process_group"]
    instrumentor.uninstrument()
    instrumentor.instrument(skip_dep_check=True)
    dist.init_process_group = c10d.init_process_group
    assert dist.init_process_group is not wrapper

    instrumentor.uninstrument()

    assert dist.init_process_group is originals[dist]["init_process_group"]


def test_module_functions_are_left_alone(instrumentor, originals):
    for name in ("all_reduce", "isend", "irecv", "barrier", "all_gather_into_tensor", "broadcast_object_list"):
        assert getattr(dist, name) is originals[dist][name]


def test_peer_to_peer_operations_accept_functions_imported_early(group):
    operation = dist.P2POp(dist.isend, torch.ones(1), peer=0, group=group)

    assert operation.op is dist.isend


def test_collectives_are_counted_with_their_bytes_however_they_are_called(group):
    tensor = torch.ones(256)
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, async_op=True).wait()
    group.allreduce(tensor).wait()
    dist.broadcast(tensor, src=0)
    dist.all_gather([torch.empty(256)], tensor)
    dist.all_gather_into_tensor(torch.empty(256), tensor)
    dist.reduce_scatter_tensor(torch.empty(256), tensor)
    dist.barrier()

    found = counts()

    assert found["all_reduce"][:2] == (3, 3 * 1024)
    assert found["broadcast"][:2] == (1, 1024)
    assert found["all_gather"][:2] == (2, 2 * 1024)
    assert found["reduce_scatter"][:2] == (1, 1024)
    assert found["barrier"][:2] == (1, 0)
    assert found["all_reduce"][2] > 0
    assert found["all_reduce"][3] > 0
    assert torch.equal(tensor, torch.ones(256))


def test_a_sparse_tensor_is_counted_by_its_parts(group):
    dist.all_reduce(torch.tensor([0.0, 1.0, 2.0]).to_sparse())

    # Two indices of 8 bytes, two values of 4.
    assert counts()["all_reduce"][:2] == (1, 24)


def test_counting_goes_on_after_instrumenting_again(group, instrumentor, recorded):
    instrumentor.uninstrument()
    dist.all_reduce(torch.ones(1))
    instrumentor.instrument(skip_dep_check=True)
    dist.all_reduce(torch.ones(1))

    assert counts()["all_reduce"][:2] == (1, 4)
    points = recorded.metrics()[metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS.name]
    assert any(point.attributes[attributes.TORCH_DISTRIBUTED_OPERATION] == "all_reduce" for point in points)


def test_errors_are_those_of_the_original(group, instrumentor):
    def failure(call):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it must be the same
            call()
        return type(caught.value), str(caught.value).split("Invoked with")[0]

    calls = [
        group.allreduce,
        lambda: group.allreduce("text"),
        lambda: group.allreduce([torch.ones(1)], opts="wrong"),
        lambda: dist.send(torch.ones(1), dst=0),
    ]
    patched = [failure(call) for call in calls]
    instrumentor.uninstrument()

    assert [failure(call) for call in calls] == patched


def test_names_and_documentation_survive(instrumentor, originals):
    for name in ("allreduce", "barrier"):
        original = originals[c10d.ProcessGroup][name].__func__
        patched = getattr(c10d.ProcessGroup, name)
        assert patched.__name__ == original.__name__
        assert patched.__doc__ == original.__doc__
    assert inspect.signature(dist.init_process_group) == inspect.signature(originals[dist]["init_process_group"])


#: How pybind writes the type in a docstring.
WORK = re.compile(r"-> (torch\._C\._distributed_c10d\.Work|c10d::Work)")
#: Ends a batch of collectives, each of which is counted where it is issued.
NO_COLLECTIVE = {"_end_coalescing"}


def test_every_method_that_returns_work_is_counted(originals, instrumentor):
    methods = {
        name
        for name, raw in originals[c10d.ProcessGroup].items()
        if type(raw).__name__ == "instancemethod" and WORK.search(raw.__doc__ or "")
    }
    assert {"allreduce", "barrier", "send"} <= methods
    uncounted = {name for name in methods if vars(c10d.ProcessGroup)[name] is originals[c10d.ProcessGroup][name]}
    assert uncounted == NO_COLLECTIVE
    assert instrumentor._patches.missing_required == []
    absent = {name.rpartition(".")[2] for name in instrumentor.missing}
    assert {method.name for method in METHODS} - absent - methods == {"monitored_barrier"}  # returns nothing


def test_the_rank_becomes_known_when_the_group_stands(group):
    assert process_identity.current().rank == 0
    assert process_identity.current().world_size == 1


def test_collectives_can_be_left_alone(originals, recorded, monkeypatch):
    monkeypatch.setattr(settings, "current", lambda: settings.Settings(collectives="off"))
    instrumentor = TorchDistributedInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    try:
        assert vars(c10d.ProcessGroup)["allreduce"] is originals[c10d.ProcessGroup]["allreduce"]
        assert vars(c10d.Work)["wait"] is originals[c10d.Work]["wait"]
        assert dist.init_process_group is not originals[dist]["init_process_group"]
    finally:
        instrumentor.uninstrument()


def test_nothing_is_patched_in_the_launcher(originals, recorded, monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(role="launcher"))
    instrumentor = TorchDistributedInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    try:
        assert dictionaries() == originals
    finally:
        instrumentor.uninstrument()
    assert "torch.distributed" in sys.modules
