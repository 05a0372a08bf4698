"""An engine is compared with the optimizers of its process, by sums over real tensors."""

from __future__ import annotations

import copy
import sys

import pytest

from otel_rl.semconv.attributes import RlSyncVerdictValues as Verdict
from otel_rl.weight_sync import trainer_updates
from otel_rl.weight_sync.tensor_sums import added, sum_of, sums_of_model
from otel_rl.weight_sync.trainer_updates import TrainerUpdates
from otel_rl.weight_sync.verdicts import ALWAYS, EngineWeights, SyncVerdicts

torch = pytest.importorskip("torch")


@pytest.fixture
def updates():
    found = TrainerUpdates()
    end = found.watch()
    yield found
    end()


class Policy(torch.nn.Module):
    """What a trainer holds."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(seed)
        for name, rows in (("q", 8), ("k", 4), ("v", 4), ("o", 8), ("norm", 1)):
            self.register_parameter(name, torch.nn.Parameter(torch.randn(rows, 8, generator=made)))


class Engine(torch.nn.Module):
    """What an engine makes of it: a fused tensor, and one of its own."""

    def __init__(self, policy: Policy, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self._dtype = dtype
        self.rotary = torch.nn.Parameter(torch.arange(8.0))
        self.load(policy)

    def load(self, policy: Policy, only: tuple[str, ...] = ("qkv", "o", "norm")) -> None:
        given = {
            "qkv": torch.cat([policy.q, policy.k, policy.v]),
            "o": policy.o,
            "norm": policy.norm,
        }
        for name in only:
            held = given[name].detach().to(self._dtype).clone()
            self.register_parameter(name, torch.nn.Parameter(held, requires_grad=False))


class Run:
    """A loop of a trainer with an engine, compared before each use."""

    def __init__(self, updates: TrainerUpdates, *, dtype: torch.dtype = torch.float32, sums: bool = True) -> None:
        self.policy = Policy()
        self.engine = Engine(self.policy, dtype)
        self.updates, self.dtype, self.sums = updates, dtype, sums
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.5)
        self.verdicts = SyncVerdicts()
        updates.compare_as(dtype)
        self.verdicts.begin(self.told(), updates.read(dtype))

    def told(self) -> EngineWeights:
        sums = {name: (one,) for name, one in sums_of_model(self.engine)}
        return EngineWeights(None, sums) if self.sums else EngineWeights(tuple(float(one[0]) for one in sums.values()))

    def train(self, lr: float = 0.5) -> None:
        self.optimizer.param_groups[0]["lr"] = lr
        for parameter in self.policy.parameters():
            parameter.grad = torch.ones_like(parameter)
        self.optimizer.step()

    def use(self, *, brought: bool = True):
        trainer = self.updates.read(self.dtype)
        return self.verdicts.compare(self.told(), trainer, self.updates.first(self.dtype), after_sync=brought)

    def step(self, only: tuple[str, ...] | None = ("qkv", "o", "norm"), lr: float = 0.5):
        """Train, sync these tensors, and use the engine; None stands for no operation."""
        self.train(lr)
        if only is not None:
            self.engine.load(self.policy, only)
        return self.use(brought=only is not None)


def test_sums_tell_every_change_and_add_up():
    one, two = torch.randn(300, 7), torch.randn(5, 7)
    joined = int(sum_of(torch.cat([one, two])))
    assert joined == added(int(sum_of(one)), int(sum_of(two)))
    for index in (0, 150, 299):
        other = one.clone()
        other[index, 3] = torch.nextafter(other[index, 3], torch.tensor(9.0))
        assert int(sum_of(other)) != int(sum_of(one))
    padded = torch.cat([one, torch.zeros(64, 7)])
    assert int(sum_of(padded)) == int(sum_of(one))


def test_two_elements_that_move_by_one_step_in_opposite_ways_are_a_change():
    one = torch.full((64,), 1.0, dtype=torch.bfloat16)
    other = one.clone()
    other.view(torch.int16)[0] += 1
    other.view(torch.int16)[1] -= 1
    assert int(sum_of(other)) != int(sum_of(one))


def test_no_two_values_of_two_bytes_have_the_same_sum():
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    assert len({int(sum_of(one)) for one in every[::7]}) == len(every[::7])


def test_a_tensor_of_eight_bytes_is_left_as_it_is():
    one = torch.randint(-(1 << 62), 1 << 62, (64,))
    before = one.clone()
    sum_of(one)
    assert torch.equal(one, before)


def test_chunks_do_not_change_a_sum(monkeypatch):
    one = torch.randn(33, 5)
    whole = int(sum_of(one))
    monkeypatch.setattr("otel_rl.weight_sync.tensor_sums._CHUNK", 7)
    assert int(sum_of(one)) == whole


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.randn(4, 6).t(),
        torch.randn(3, 4, 5)[:, 1:, ::2],
        torch.randn(8).to(torch.float64),
        torch.randn(8).to(torch.bfloat16),
        torch.randint(0, 9, (8,)),
        torch.tensor([True, False]),
        torch.randn(8).to(torch.float8_e4m3fn),
        torch.randn(4, requires_grad=True),
    ],
)
def test_every_kind_of_tensor_has_a_sum_and_stays_as_it_is(tensor):
    before = tensor.detach().clone()
    assert isinstance(int(sum_of(tensor)), int)
    assert int(sum_of(tensor)) == int(sum_of(before))
    assert torch.equal(tensor.detach().to(torch.float64), before.to(torch.float64))


@pytest.mark.parametrize("tensor", [torch.empty(0), torch.ones(4, device="meta")])
def test_a_tensor_without_data_has_no_sum(tensor):
    assert sum_of(tensor) is None


def test_a_sum_as_the_engine_s_type_is_that_of_the_rounded_tensor():
    one = torch.randn(40, 3)
    assert int(sum_of(one, torch.bfloat16)) == int(sum_of(one.to(torch.bfloat16)))


def test_clean_syncs_are_no_problem(updates):
    run = Run(updates)
    outcomes = [run.step() for _ in range(50)]
    assert {one.verdict for one in outcomes} == {Verdict.CURRENT}
    assert not any(one.is_problem for one in outcomes)


@pytest.mark.parametrize("sums", [True, False])
def test_the_very_first_sync_that_brings_nothing_new_is_told(updates, sums):
    run = Run(updates, sums=sums)
    outcome = run.step(only=())
    assert (outcome.verdict, outcome.is_problem, outcome.updates) == (Verdict.SKIPPED, True, 1)


@pytest.mark.parametrize("missing", ["qkv", "o", "norm"])
def test_tensors_that_a_sync_leaves_out_are_named(updates, missing):
    run = Run(updates)
    run.step()
    outcome = run.step(only=tuple({"qkv", "o", "norm"} - {missing}))
    assert (outcome.verdict, outcome.is_problem, outcome.behind) == (Verdict.PARTIAL, True, [missing])
    assert (outcome.compared, outcome.changed) == (3, 2)
    assert run.step().verdict == Verdict.CURRENT


def test_a_learning_rate_of_zero_is_no_skipped_sync(updates):
    run = Run(updates)
    assert run.step(lr=0.0).verdict == Verdict.CURRENT
    run = Run(updates, sums=False)
    assert not run.step(lr=0.0).is_problem


def test_updates_that_vanish_in_the_engine_s_type_are_no_skipped_sync(updates):
    for sums in (True, False):
        run = Run(updates, dtype=torch.bfloat16, sums=sums)
        outcomes = [run.step(lr=1e-7) for _ in range(5)]
        assert not any(one.is_problem for one in outcomes), outcomes


def test_tensors_that_few_updates_reach_in_the_engine_s_type_are_not_missed(updates):
    """In bfloat16 a norm stands still for many updates that the matrices feel."""
    run = Run(updates, dtype=torch.bfloat16)
    run.step()
    with torch.no_grad():
        run.policy.norm.fill_(100.0)
    outcomes = [run.step(lr=0.02) for _ in range(8)]
    assert {one.verdict for one in outcomes} == {Verdict.CURRENT}


def test_a_frozen_tensor_and_one_of_the_engine_s_own_are_not_missed(updates):
    run = Run(updates)
    run.policy.norm.requires_grad_(requires_grad=False)
    run.optimizer = torch.optim.SGD([run.policy.q, run.policy.k, run.policy.v, run.policy.o], lr=0.5)
    assert {run.step(only=("qkv", "o")).verdict for _ in range(5)} == {Verdict.CURRENT}


def test_a_sync_that_never_comes_is_told_where_it_always_came(updates):
    run = Run(updates)
    run.step()
    outcome = run.step(only=None)
    assert (outcome.verdict, outcome.is_problem) == (Verdict.SKIPPED, True)


def test_a_program_that_syncs_every_third_step_is_left_alone(updates):
    for sums in (True, False):
        run = Run(updates, sums=sums)
        outcomes = [run.step(only=("qkv", "o", "norm") if number % 3 == 0 else None) for number in range(1, 31)]
        assert not any(one.is_problem for one in outcomes)
        # Now it is one step late.
        late = [run.step(only=None) for _ in range(3)]
        assert [one.is_problem for one in late] == [False, False, True]
        assert late[-1].updates == 3


def test_a_critic_that_moves_while_the_policy_stands_still_is_no_skipped_sync(updates):
    for sums in (True, False):
        run = Run(updates, sums=sums)
        critic = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(critic.parameters(), lr=0.5)

        def warm_up(critic=critic, optimizer=optimizer):
            critic(torch.ones(1, 4)).sum().backward()
            optimizer.step()

        run.step()
        warm_up()
        for _ in range(3):
            warm_up()
            run.engine.load(run.policy)
            assert not run.use().is_problem


def test_merged_weights_that_match_nothing_are_judged_by_their_changes(updates):
    run = Run(updates)

    def merged(only=("qkv", "o", "norm")):
        run.train()
        shifted = copy.deepcopy(run.policy)
        with torch.no_grad():
            for parameter in shifted.parameters():
                parameter.add_(0.25)
        run.engine.load(shifted, only)
        return run.use()

    run.engine.load(Policy(seed=5))
    run.verdicts.begin(run.told(), None)
    run.verdicts = SyncVerdicts()
    run.verdicts.begin(run.told(), None)
    assert [merged().is_problem for _ in range(ALWAYS)] == [False] * ALWAYS
    outcome = merged(only=("qkv", "norm"))
    assert (outcome.verdict, outcome.behind, outcome.compared) == (Verdict.PARTIAL, ["o"], 0)
    outcome = merged(only=())
    assert (outcome.verdict, outcome.is_problem) == (Verdict.SKIPPED, True)


def test_an_engine_that_is_one_version_behind_is_not_partly_updated(updates):
    """The trainer goes on after a sync that nobody saw, and in the engine's type one tensor has not moved."""
    run = Run(updates, dtype=torch.bfloat16)
    with torch.no_grad():
        run.policy.norm.fill_(100.0)
    verdicts = []
    for lr in (0.5, 0.02, 0.5, 0.02, 0.5):
        run.engine.load(run.policy)
        run.train(lr)
        outcome = run.use(brought=False)
        assert not outcome.is_problem
        verdicts.append(outcome.verdict)
    assert verdicts[-3:] == [Verdict.BEHIND] * 3


def test_without_a_trainer_nothing_is_judged(updates):
    run = Run(updates)
    assert run.verdicts.compare(run.told(), None, updates.first(run.dtype), after_sync=True).verdict == Verdict.UNKNOWN


def test_optimizers_step_as_without_the_hook_and_are_not_kept_alive(updates, monkeypatch):
    monkeypatch.setattr(trainer_updates, "MAXIMUM_OPTIMIZERS", 3)
    policy = Policy()
    twin = copy.deepcopy(policy)
    updates.compare_as(torch.float32)
    for _ in range(5):
        optimizer = torch.optim.AdamW(policy.parameters(), lr=0.1)
        other = torch.optim.AdamW(twin.parameters(), lr=0.1)
        for parameters in (policy, twin):
            for parameter in parameters.parameters():
                parameter.grad = torch.ones_like(parameter)
        assert optimizer.step(lambda: 7) == 7
        torch.optim.AdamW.step.__wrapped__(other)
        assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), twin.parameters(), strict=True))
    assert updates.updates == 5
    del optimizer, other
    assert len(updates._optimizers) <= 1


def test_the_hooks_go_away():
    module = sys.modules["torch.optim.optimizer"]
    before = len(module._global_optimizer_post_hooks)
    found = TrainerUpdates()
    end = found.watch()
    assert found.watch() is None
    end()
    assert len(module._global_optimizer_post_hooks) == before
