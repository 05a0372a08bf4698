"""Plain loops of PyTorch: one step is counted for each time that the main model's parameters move."""

from __future__ import annotations

import itertools
import threading
from itertools import count

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - needs torch
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import otel_rl  # noqa: E402 - needs torch
from otel_rl.instrumentors.torch_training import TorchTrainingInstrumentor, patch  # noqa: E402
from otel_rl.telemetry import deferral, progress  # noqa: E402
from otel_rl.training import steps  # noqa: E402


@pytest.fixture
def instrumented(recorded, monkeypatch):
    monkeypatch.setattr(steps, "_numbers", count())
    monkeypatch.setattr(steps, "may_guess", True)
    monkeypatch.setattr(steps, "_last_iteration", None)
    instrumentor = TorchTrainingInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    torch.manual_seed(0)
    yield instrumentor
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


@pytest.fixture
def counted(instrumented, recorded):
    """Returns how many steps were recorded; their numbers have to rise by one."""

    def number():
        deferral.drain_all()
        iterations = [span.attributes["rl.loop.iteration"] for span in recorded.spans if span.name == "rl.rank.step"]
        assert iterations == list(range(1, len(iterations) + 1))
        return len(iterations)

    return number


def model(width=4):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 1))


def loss_of(net, batch=2):
    return net(torch.randn(batch, 4)).square().mean()


def update(net, optimizer, **options):
    optimizer.zero_grad()
    loss_of(net).backward()
    optimizer.step(**options)


class Derived(torch.optim.SGD):
    """Fires twice for one step: the step of its base class is hooked too once one of these was made."""

    def step(self, closure=None):
        return super().step(closure)


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.1, foreach=True),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
        lambda parameters: torch.optim.AdamW(parameters, lr=torch.tensor(0.1), capturable=False, foreach=False),
        lambda parameters: Derived(parameters, lr=0.1),
    ],
    ids=["sgd", "foreach", "fused", "tensor lr", "super().step()"],
)
def test_each_step_of_one_optimizer_counts_once(counted, make):
    net = model()
    torch.optim.SGD(net.parameters(), lr=0.1)  # so that the base class of the derived one is hooked
    optimizer = make(net.parameters())
    for _ in range(3):
        update(net, optimizer)
    assert counted() == 3


def test_accumulated_passes_are_one_step(counted):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number in range(12):
        loss_of(net).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    assert counted() == 3


def test_the_closures_of_one_step_are_one_step(counted, recorded):
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(net)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert counted() == 3


def test_a_closure_that_raises_is_no_step_and_harms_no_later_one(counted):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def closure():
        loss_of(net).backward()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        optimizer.step(closure)
    for _ in range(3):
        update(net, optimizer)
    assert counted() == 3


def test_a_step_without_gradients_is_none(counted):
    optimizer = torch.optim.SGD(model().parameters(), lr=0.1)
    for _ in range(3):
        optimizer.step()
    assert counted() == 0


def test_a_step_that_the_gradient_scaler_leaves_out_is_none(counted):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for number in range(4):
        optimizer.zero_grad()
        loss = loss_of(net) * (float("inf") if number == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert counted() == 3


@pytest.mark.parametrize("widths", [(4, 8), (8, 4)])
def test_two_models_that_train_against_each_other_make_one_step_a_turn(counted, widths):
    nets = [model(width) for width in widths]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    for _ in range(4):
        for net, optimizer in zip(nets, optimizers, strict=True):
            update(net, optimizer)
    assert counted() == 4


def test_two_optimizers_of_one_model_make_one_step_a_turn(counted):
    net = model(8)
    parts = [torch.optim.SGD(net[0].parameters(), lr=0.1), torch.optim.AdamW(net[2].parameters(), lr=0.1)]
    for _ in range(4):
        loss_of(net).backward()
        for optimizer in parts:
            optimizer.step()
            optimizer.zero_grad()
    assert counted() == 4


def test_optimizers_that_step_within_the_backward_pass_make_one_step_a_pass(counted):
    from torch.distributed.optim import _apply_optimizer_in_backward

    net = model()
    _apply_optimizer_in_backward(torch.optim.SGD, net.parameters(), {"lr": 0.1})
    for _ in range(3):
        loss_of(net).backward()
    assert counted() == 3


def test_an_optimizer_around_another_one_counts_once(counted):
    net = model()

    class Outer(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 0.1})
            self.inner = torch.optim.SGD(self.param_groups[0]["params"], lr=0.1)

        def step(self, closure=None):
            return self.inner.step(closure)

    optimizer = Outer(list(net.parameters()))
    for _ in range(3):
        update(net, optimizer)
    assert counted() == 3


def test_a_loop_without_an_optimizer_is_not_guessed(counted, recorded):
    net = model()
    for _ in range(3):
        loss_of(net).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.sub_(0.1 * parameter.grad)
    assert counted() == 0


def test_a_loop_that_goes_on_in_another_thread_goes_on_with_its_numbers(counted):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    update(net, optimizer)
    for _ in range(2):
        thread = threading.Thread(target=update, args=(net, optimizer))
        thread.start()
        thread.join(60)
    assert counted() == 3


def test_a_smaller_model_in_another_thread_adds_no_step(counted):
    nets = [model(8), model(4)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    update(nets[0], optimizers[0])
    thread = threading.Thread(target=lambda: [update(nets[1], optimizers[1]) for _ in range(20)])
    thread.start()
    for _ in range(4):
        update(nets[0], optimizers[0])
    thread.join(60)
    update(nets[0], optimizers[0])
    assert counted() == 6


def epoch(net, optimizer, loader):
    for (inputs,) in loader:
        optimizer.zero_grad()
        net(inputs).square().mean().backward()
        optimizer.step()


def names_of(recorded):
    deferral.drain_all()
    return [span.name for span in recorded.spans]


def test_a_validation_that_turns_gradients_off_inside_of_its_loop_is_no_part_of_a_step(counted, recorded):
    net, data, test = model(), TensorDataset(torch.randn(20, 4)), TensorDataset(torch.randn(20, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        epoch(net, optimizer, DataLoader(data, batch_size=4))
        for (inputs,) in DataLoader(test, batch_size=10):
            with torch.no_grad():
                net(inputs)
    assert counted() == 10
    found = names_of(recorded)
    assert (found.count("rl.data_wait"), found.count("rl.evaluate")) == (10, 2)
    assert {name for event in recorded.events("rl.step") for name in event.body} == {
        "torch/learning_rate",
        "torch/batch_size",
        "torch/samples_per_second",
        "torch/loss",
    }


@pytest.mark.parametrize("workers", [0, 2])
def test_parts_and_values_of_a_loop_over_a_data_loader(counted, recorded, workers):
    net, data = model(), TensorDataset(torch.randn(20, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4, num_workers=workers, multiprocessing_context="fork" if workers else None)
    for _ in range(2):
        epoch(net, optimizer, loader)
        with torch.no_grad():
            for (inputs,) in DataLoader(data, batch_size=10):
                net(inputs)
    assert counted() == 10
    found = names_of(recorded)
    assert {name: found.count(name) for name in set(found) if name != "rl.run"} == {
        "rl.loop": 10,
        "rl.rank.step": 10,
        "rl.data_wait": 10,
        "rl.forward": 10,
        "rl.backward": 10,
        "rl.optimizer": 10,
        "rl.evaluate": 2,
    }
    values = [event.body for event in recorded.events("rl.step")]
    assert {(one["torch/learning_rate"], one["torch/batch_size"]) for one in values} == {(0.1, 4)}
    assert all(one["torch/loss"] > 0 and one["torch/samples_per_second"] > 0 for one in values)


def test_first_batches_are_watched_where_workers_make_them_and_not_for_ever(instrumented, monkeypatch):
    watched, data = [], TensorDataset(torch.randn(2, 4))
    monkeypatch.setattr(progress, "_part_watchers", (watched.append, lambda *_: None))
    monkeypatch.setattr(patch, "_next_watched", count().__next__)
    monkeypatch.setattr(patch, "_MOST_WATCHED", 2)
    assert len(list(DataLoader(data))) == 2
    assert watched == []
    for _ in range(3):
        assert len(list(DataLoader(data, num_workers=1, multiprocessing_context="fork"))) == 2
    assert [part.argument for part in watched] == [1, 1]


def test_tokens_are_counted_where_a_batch_has_some(counted, recorded):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = [{"input_ids": torch.zeros(7, dtype=torch.long), "x": torch.randn(4)} for _ in range(6)]
    for batch in DataLoader(data, batch_size=3):
        net(batch["x"]).mean().backward()
        optimizer.step()
    assert counted() == 2
    assert [event.body["torch/batch_size"] for event in recorded.events("rl.step")] == [3, 3]
    assert recorded.metrics()["rl.train.tokens"][0].value == 42


def values_of(recorded, key):
    deferral.drain_all()
    return [event.body[key] for event in recorded.events("rl.step") if key in event.body]


needs_substitution = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5), reason="Dynamo could not trace the original"
)
WITHOUT, TRAINABLE = "torch/without_gradient", "torch/trainable_parameters"


def test_an_optimizer_with_tensors_of_another_model_is_counted_at_each_step(counted, recorded):
    optimizer, net = torch.optim.SGD(model().parameters(), lr=0.1), model()
    for _ in range(4):
        update(net, optimizer)
    assert counted() == 4
    assert (values_of(recorded, WITHOUT), values_of(recorded, TRAINABLE)) == ([1.0] * 4, [4] * 4)


def test_parameters_that_all_lose_and_regain_their_gradients_are_seen_at_that_step(counted, recorded):
    net, other = model(), nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number in range(9):
        optimizer.zero_grad()
        (loss_of(net) if number < 3 or number >= 6 else other.sum()).backward()
        optimizer.step()
    assert counted() == 9
    assert values_of(recorded, WITHOUT) == [1.0] * 3 + [0.0] * 3
    steps_with = [
        event.attributes["rl.loop.iteration"] for event in recorded.events("rl.step") if WITHOUT in event.body
    ]
    assert steps_with == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(("heads", "unused"), [(10, 0), (4, 12)])
def test_heads_that_take_turns_are_not_without_a_gradient_and_those_that_have_no_turn_are(
    counted, recorded, heads, unused
):
    trunk, tasks = nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 1) for _ in range(heads + unused)])
    optimizer = torch.optim.SGD([*trunk.parameters(), *tasks.parameters()], lr=0.1)
    for number in range(heads):
        optimizer.zero_grad()
        loss_of(nn.Sequential(trunk, tasks[number])).backward()
        optimizer.step()
    assert counted() == heads
    assert values_of(recorded, WITHOUT)[-1] == 2 * unused / (2 + 2 * (heads + unused))


@pytest.mark.parametrize("heads", [50, 100, 200])
def test_of_many_heads_that_take_turns_each_is_seen_with_its_gradient(heads):
    parameters = [nn.Parameter(torch.ones(1)) for _ in range(2 * heads)]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for number in range(50 * heads):
        optimizer.zero_grad()
        for parameter in parameters[number % heads :: heads]:
            parameter.grad = torch.ones(1)
        missing = patch.readings.missing_gradients(optimizer)
    assert missing.share < 0.1


def test_of_many_parameters_some_are_looked_at_and_all_counted_when_these_change(counted, recorded, monkeypatch):
    looked_at = []
    monkeypatch.setattr(patch.readings, "_is_missing", lambda one: looked_at.append(one) is None)
    parameters = [nn.Parameter(torch.ones(1)) for _ in range(200)]
    optimizer, other = torch.optim.SGD(parameters, lr=0.1), nn.Parameter(torch.ones(1))
    for number in range(6):
        optimizer.zero_grad()
        (sum(parameters) if number < 3 else other * 2).sum().backward()
        optimizer.step()
    assert counted() == 6
    assert (values_of(recorded, WITHOUT), values_of(recorded, TRAINABLE)) == ([1.0] * 3, [200] * 3)
    assert len(looked_at) == 50 + 200


@pytest.mark.parametrize(("kind", "skipped"), [({}, [0.0, 1.0, 1.0]), ({"fused": True}, [])], ids=["seen", "fused"])
def test_a_step_that_changes_nothing_is_told_if_earlier_ones_are_known_to_have(counted, recorded, kind, skipped):
    class Guarded(torch.optim.SGD):
        def step(self, *args):
            return None if next(numbers) in (4, 5) else super().step(*args)

    net, numbers = model(), itertools.count(1)
    optimizer = Guarded(net.parameters(), lr=0.1, **kind)
    for _ in range(7):
        update(net, optimizer)
    assert counted() == 7
    assert values_of(recorded, "torch/unchanged") == [1.0, 1.0, 0.0, 0.0][: 4 * bool(skipped)]


def test_frozen_empty_and_otherwise_kept_gradients_are_not_missing(counted, recorded):
    net = model()
    net[0].requires_grad_(False)
    empty, elsewhere = nn.Parameter(torch.empty(0)), nn.Parameter(torch.ones(1))
    elsewhere.main_grad = torch.ones(1)
    optimizer = torch.optim.SGD([*net.parameters(), empty, elsewhere], lr=0.1)
    for _ in range(3):
        update(net, optimizer)
    assert counted() == 3
    assert values_of(recorded, WITHOUT) == []


def test_missing_gradients_are_values_of_a_step_that_the_program_marks(instrumented, recorded):
    optimizer, net = torch.optim.SGD(model().parameters(), lr=0.1), model()
    for number in range(1, 3):
        with otel_rl.step(number):
            update(net, optimizer)
    assert values_of(recorded, WITHOUT) == [1.0, 1.0]


@needs_substitution
def test_clipping_is_a_value_of_a_step_that_the_program_marks(instrumented, recorded):
    net = model()
    with otel_rl.step(1):
        loss_of(net).backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters=net.parameters(), max_norm=0.5).item()
    assert (values_of(recorded, "torch/grad_norm"), values_of(recorded, "torch/max_grad_norm")) == ([norm], [0.5])


@needs_substitution
def test_the_norm_that_clipping_returns_is_logged_by_whatever_name_it_is_called(counted, recorded):
    from torch.nn.utils import clip_grad

    net = model()
    optimizer, norms = torch.optim.SGD(net.parameters(), lr=0.1), []
    for clip in (torch.nn.utils.clip_grad_norm_, clip_grad.clip_grad_norm_, nn.utils.clip_grad_norm_):
        optimizer.zero_grad()
        loss_of(net).backward()
        norms.append(clip(net.parameters(), max_norm=0.5, foreach=False).item())
        optimizer.step()
    assert counted() == 3
    assert values_of(recorded, "torch/grad_norm") == norms
    assert values_of(recorded, "torch/max_grad_norm") == [0.5] * 3


@needs_substitution
def test_a_compiled_function_that_clips_is_one_graph_as_without_us(instrumented, recorded):
    net = model()
    loss_of(net).backward()
    clip = torch.compile(
        lambda: torch.nn.utils.clip_grad_norm_(list(net.parameters()), 1.0), fullgraph=True, backend="eager"
    )
    assert clip() > 0
    counters = torch._dynamo.utils.counters
    assert (counters["stats"]["unique_graphs"], dict(counters["graph_break"])) == (1, {})


@pytest.mark.parametrize("batch", [None, 5, "text", [], {}, {"a": 1}, [1, 2], torch.tensor(1.0)])
def test_of_a_batch_without_a_shape_nothing_is_made_up(batch):
    assert patch.readings.batch_size(batch) == (None, 0)


def test_only_what_is_at_hand_is_read():
    assert patch.readings.value(torch.tensor(0.5)) == 0.5
    for other in (None, 1.0, torch.ones(2), torch.empty((), device="meta"), nn.Parameter(torch.ones(()))):
        assert patch.readings.value(other) is None


def test_a_loss_inside_of_a_transform_is_left_alone(instrumented):
    seen = []
    torch.func.vmap(lambda one: (seen.append(patch.readings.value(one.sum())), one)[1])(torch.ones(2, 3))
    assert seen == [None]


def test_an_error_of_ours_does_not_take_the_place_of_the_programs_own(instrumented, monkeypatch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, one):
            return one.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ZeroDivisionError

    def ours(*_):
        raise AttributeError

    monkeypatch.delenv("OTEL_RL_RAISE_INTERNAL_ERRORS", raising=False)
    monkeypatch.setattr(patch, "_end_backward", ours)
    with pytest.raises(ZeroDivisionError):
        Fails.apply(torch.ones(1, requires_grad=True)).backward()


def test_uninstrumenting_takes_the_hooks_and_an_open_step_away(instrumented, recorded):
    from torch.optim import optimizer as module

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    update(net, optimizer)
    loss_of(net).backward()
    assert steps.where().step is not None
    instrumented.uninstrument()
    assert steps.where().step is None
    assert not module._global_optimizer_pre_hooks
    assert not module._global_optimizer_post_hooks
    update(net, optimizer)
    deferral.drain_all()
    assert names_of(recorded).count("rl.rank.step") == 1


def test_the_results_of_a_loop_are_the_same(recorded, monkeypatch):
    def train():
        torch.manual_seed(1)
        net = model()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        epoch(net, optimizer, DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=4, shuffle=True))
        return [parameter.detach().clone() for parameter in net.parameters()], torch.rand(1)

    monkeypatch.setattr(steps, "may_guess", True)
    before = train()
    instrumentor = TorchTrainingInstrumentor()
    instrumentor.instrument(skip_dep_check=True)
    after = train()
    instrumentor.uninstrument()
    assert all(map(torch.equal, before[0], after[0]))
    assert torch.equal(before[1], after[1])
