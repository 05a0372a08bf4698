"""A step says how many collectives it issued that were not seen, where only those of Python are."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402

from otel_rl.collectives.recorder import CollectiveRecorder  # noqa: E402
from otel_rl.collectives.unseen import UnseenCollectives  # noqa: E402
from otel_rl.core import settings  # noqa: E402
from otel_rl.instrumentors.torch_distributed import (  # noqa: E402
    TorchDistributedInstrumentor,
    patch,
    sequence_numbers,
)
from otel_rl.semconv import attributes, spans  # noqa: E402
from otel_rl.telemetry import Scope  # noqa: E402
from otel_rl.training import steps  # noqa: E402

#: Of lists, over gloo.
HAS_REDUCE_SCATTER = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)
UNSEEN, CALLS = attributes.TORCH_DISTRIBUTED_UNSEEN, attributes.TORCH_DISTRIBUTED_CALLS


@pytest.fixture
def step(recorded):
    """Run something in a step of a process group of one, and give the attributes of the step."""
    # An own one: what a test patches with the fixture must be back before the group is destroyed.
    environment = pytest.MonkeyPatch()
    environment.setenv("OTEL_RL_COLLECTIVES", "python")
    settings.reset()
    instrumentor = TorchDistributedInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    patch.collectives().recorder.reset()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def run(work):
        recorded.clear()
        steps.begin(1, Scope("test"))
        work()
        steps.finish()
        (span,) = [span for span in recorded.spans if span.name == spans.RL_RANK_STEP.type]
        return span.attributes

    yield run
    dist.destroy_process_group()
    instrumentor.uninstrument()
    environment.undo()
    settings.reset()


def _every_operation_of_python():
    tensors = [torch.ones(4) for _ in range(3)]
    dist.all_reduce(tensors[0])
    dist.all_reduce(tensors[0], async_op=True).wait()
    dist.broadcast(tensors[0], 0)
    dist.reduce(tensors[0], 0)
    dist.all_gather([tensors[1]], tensors[0])
    if HAS_REDUCE_SCATTER:
        dist.reduce_scatter(tensors[1], [tensors[0]])
    dist.gather(tensors[0], [tensors[1]])
    dist.scatter(tensors[0], [tensors[1]])
    dist.all_to_all_single(tensors[0], tensors[1])
    dist.barrier()
    dist.monitored_barrier()
    dist.all_gather_object([None], "x")


def test_collectives_that_python_issues_are_all_seen(step):
    values = step(_every_operation_of_python)
    assert values[CALLS] >= 11
    assert UNSEEN not in values


def test_the_gradient_reduction_of_ddp_is_counted_as_not_seen(step):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    values = step(lambda: model(torch.ones(2, 4)).sum().backward())
    assert values[UNSEEN] >= 1


def test_functional_collectives_are_counted_as_not_seen_beside_those_that_are(step):
    def work():
        dist.all_reduce(torch.ones(4))
        for _ in range(3):
            functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD).sum().item()

    values = step(work)
    assert (values[CALLS], values[UNSEEN]) == (1, 3)


def test_collectives_before_the_step_do_not_count(step):
    functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD).sum().item()
    assert UNSEEN not in step(lambda: None)


def test_a_torch_without_sequence_numbers_finds_none_and_breaks_nothing(step, monkeypatch):
    monkeypatch.setattr(c10d, "_world", None)
    assert sequence_numbers.read() == {}
    monkeypatch.undo()

    class Group:
        def _get_sequence_number_for_group(self):
            raise RuntimeError("Backend fake does not support sequence numbers")

    monkeypatch.setattr(c10d, "_world", type("World", (), {"pg_map": {Group(): None, object(): None}}))
    assert sequence_numbers.read() == {}


def test_without_torch_there_is_nothing_to_read(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "torch.distributed.distributed_c10d")
    assert sequence_numbers.read() == {}


def test_a_group_that_comes_or_whose_id_is_used_again_during_a_step_does_not_count():
    numbers = [{1: 5, 2: 900}, {1: 7, 2: 3, 4: 50}]
    unseen = UnseenCollectives(CollectiveRecorder(), lambda: numbers.pop(0))
    assert unseen.since(unseen.begin()) == 2


def test_of_a_step_in_which_numbers_became_unclear_nothing_is_known():
    unseen = UnseenCollectives(CollectiveRecorder(), lambda: {1: 5})
    beginning = unseen.begin()
    unseen.blur()
    assert unseen.since(beginning) is None


def test_steps_that_are_open_at_once_count_from_their_own_beginnings(step, recorded):
    def functional_one():
        functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD).sum().item()

    recorded.clear()
    scope, outer, inner = Scope("test"), steps.Loop(), steps.Loop()
    outer.begin(1, scope)
    functional_one()
    inner.begin(2, scope)
    functional_one()
    dist.all_reduce(torch.ones(4))
    inner.finish()
    functional_one()
    outer.finish()

    found = {
        span.attributes[attributes.RL_LOOP_ITERATION]: (span.attributes[CALLS], span.attributes[UNSEEN])
        for span in recorded.spans
        if span.name == spans.RL_RANK_STEP.type
    }
    assert found == {2: (1, 1), 1: (1, 3)}


def test_a_step_that_begins_after_numbers_became_unclear_is_clear(step, recorded):
    recorded.clear()
    scope, outer, inner = Scope("test"), steps.Loop(), steps.Loop()
    outer.begin(1, scope)
    patch.collectives().unseen.blur()
    inner.begin(2, scope)
    functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD).sum().item()
    inner.finish()
    outer.finish()

    found = {
        span.attributes[attributes.RL_LOOP_ITERATION]: span.attributes.get(UNSEEN)
        for span in recorded.spans
        if span.name == spans.RL_RANK_STEP.type
    }
    assert found == {2: 1, 1: None}
