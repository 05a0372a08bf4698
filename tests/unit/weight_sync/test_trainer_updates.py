"""Steps of real optimizers are counted, and their parameters read between two of them only."""

from __future__ import annotations

import gc
import threading

import pytest

from otel_rl.weight_sync import trainer_updates
from otel_rl.weight_sync.trainer_updates import TrainerUpdates
from otel_rl.weight_sync.verdicts import EngineWeights, SyncVerdicts

torch = pytest.importorskip("torch")


@pytest.fixture
def updates():
    found = TrainerUpdates()
    end = found.watch()
    found.compare_as(torch.float32)
    yield found
    end()


class Held(torch.optim.SGD):
    """Its step calls ``within`` between two parameters."""

    def __init__(self, parameters, within) -> None:
        super().__init__(parameters, lr=0.1)
        self.within = within

    @torch.no_grad()
    def step(self, closure=None):
        first, second = self.param_groups[0]["params"]
        first.add_(1)
        self.within()
        second.add_(1)


class Wrapping(torch.optim.Optimizer):
    """Another optimizer's parameters, and its step."""

    def __init__(self, inner) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure=None):
        return self.inner.step()


def parameters(number: int = 2):
    return [torch.nn.Parameter(torch.ones(4)) for _ in range(number)]


def read(updates):
    return updates.read(torch.float32)


def test_parameters_are_not_read_while_an_optimizer_steps(updates):
    within: list[object] = []

    def look():
        # In a thread of its own, as that of an engine.
        thread = threading.Thread(target=lambda: within.append(read(updates)))
        thread.start()
        thread.join()

    optimizer = Held(parameters(), look)
    optimizer.step()
    optimizer.step()
    assert within == [None, None]
    assert read(updates).updates == 2


@pytest.mark.parametrize("whole", [True, False])
def test_parameters_are_not_read_where_a_step_comes_in_between(updates, monkeypatch, whole):
    optimizer = Held(parameters(), lambda: None)
    optimizer.step()
    sums = trainer_updates._sums

    def step_meanwhile(*given):
        monkeypatch.setattr(trainer_updates, "_sums", sums)
        if whole:
            optimizer.step()
        else:
            updates._begin(optimizer)
        return sums(*given)

    monkeypatch.setattr(trainer_updates, "_sums", step_meanwhile)
    assert read(updates) is None


def test_a_step_that_raised_is_over_with_the_next_one(updates):
    def fail():
        raise ValueError("of the step")

    optimizer, other = Held(parameters(), fail), Held(parameters(), lambda: None)
    with pytest.raises(ValueError, match="of the step"):
        optimizer.step()
    assert (updates.updates, read(updates)) == (0, None)
    other.step()
    assert read(updates).updates == 1


def test_a_step_that_raised_in_a_thread_that_is_gone_is_over_with_the_next_one(updates):
    def fail():
        raise ValueError("of the step")

    optimizer = Held(parameters(), fail)

    def run():
        with pytest.raises(ValueError, match="of the step"):
            optimizer.step()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert read(updates) is None
    optimizer.within = lambda: None
    optimizer.step()
    assert read(updates).updates == 1


def test_an_optimizer_that_wraps_another_steps_once_and_is_read_once(updates):
    inner = torch.optim.SGD(parameters(), lr=0.1)
    optimizer = Wrapping(inner)
    for _ in range(3):
        optimizer.step()
    assert updates.updates == 3
    assert len(read(updates).sums) == 1


def test_a_step_that_calls_that_of_its_base_class_counts_once(updates):
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    # An instance gives the base class its hooks.
    torch.optim.SGD(parameters(), lr=0.1)
    Own(parameters(), lr=0.1).step()
    assert updates.updates == 1


def test_optimizers_that_are_gone_leave_nothing(updates):
    for _ in range(5):
        optimizer = torch.optim.SGD(parameters(), lr=0.1)
        optimizer.step()
        assert len(read(updates).sums) == 1
        assert len(updates.first(torch.float32).sums) == 1
        del optimizer
        gc.collect()


def test_no_more_optimizers_are_read_than_the_limit(updates, monkeypatch):
    monkeypatch.setattr(trainer_updates, "MAXIMUM_OPTIMIZERS", 3)
    optimizers = [torch.optim.SGD(parameters(), lr=0.1) for _ in range(5)]
    for one in optimizers:
        one.step()
    assert updates.updates == 5
    assert len(read(updates).sums) == len(updates.first(torch.float32).sums) == 3


def swap(tensors, number):
    """Other parts of the same parameters, as ``summon_full_params`` of FSDP1 does it with ``data``."""
    for one in tensors:
        one.data = torch.arange(1.0, number + 1)


@pytest.mark.parametrize("sums", [True, False])
def test_parameters_that_are_whole_for_a_while_have_not_moved(updates, sums):
    """The learning rate is 0: the engine rightly stands still."""
    policy = parameters(1)
    optimizer = torch.optim.SGD(policy, lr=0.0)
    verdicts = SyncVerdicts()
    swap(policy, 2)

    def outcome():
        optimizer.step()
        told = EngineWeights(None, {"weight": (one_sum,)}) if sums else EngineWeights((-1.0,))
        return verdicts.compare(told, read(updates), updates.first(torch.float32), after_sync=True)

    optimizer.step()
    [[one_sum]] = read(updates).sums.values()
    assert [outcome().verdict for _ in range(2)] == ["current"] * 2
    swap(policy, 4)
    whole = outcome()
    assert (whole.verdict, whole.is_problem) == ("unknown", False)
    swap(policy, 2)
    assert (outcome().verdict, outcome().verdict) == ("unknown", "current")


def test_what_was_read_of_whole_parameters_does_not_serve_for_their_parts(updates):
    policy = parameters(1)
    optimizer = torch.optim.SGD(policy, lr=0.0)
    swap(policy, 2)
    optimizer.step()
    before = read(updates)
    swap(policy, 4)
    assert read(updates) != before
    swap(policy, 2)
    assert read(updates) == before


def test_a_version_without_the_trainer_leaves_the_pair_before_it():
    """The engine got a version while an optimizer stepped, and stands still since, as the trainer does."""
    verdicts = SyncVerdicts()
    first, second = (trainer_updates.Parameters(number, {0: (number,)}, {0: ((1,),)}) for number in (1, 2))
    nothing = trainer_updates.Parameters(0, {}, {})
    verdicts.begin(EngineWeights((-1.0,)), first)
    assert verdicts.compare(EngineWeights((-2.0,)), None, nothing, after_sync=True).verdict == "unknown"
    outcome = verdicts.compare(EngineWeights((-2.0,)), second, nothing, after_sync=True)
    assert (outcome.verdict, outcome.is_problem) == ("current", False)
