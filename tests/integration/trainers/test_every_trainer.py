"""The contract of the trainer boundary, for every trainer class of TRL and for ``Trainer``."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import every_trainer
import pytest
import runs
import transformers
from virtual_work import PIECE, Clock, injected

from otel_rl.instrumentors.trl import TRLInstrumentor
from otel_rl.instrumentors.trl.methods import MODULES
from otel_rl.instrumentors.trl.patch import algorithm_of

STEPS = 3
#: These run in `make test`, all of them in `make test-trainers`.
OFTEN = {"A2PO", "AsyncGRPO", "DPO", "GOLD", "GRPO", "OnlineDPO", "RLOO", "SDPO", "SFT"}
TOP_LEVEL = {"rl.sample", "rl.reward", "rl.train", "rl.sync", "rl.evaluate", "rl.checkpoint", "rl.data_wait"}
#: Kind of work -> spans of which one has to hold it.
HOLDERS = {
    "data_wait": {"rl.data_wait"},
    "sample": {"rl.sample"},
    "reward": {"rl.reward"},
    "forward": {"rl.forward"},
    "backward": {"rl.backward"},
    "optimizer": {"rl.optimizer"},
    # Of the reference, or before the update: alone, while sampling, or as a part of the loss.
    "log_probs": {"rl.log_probs", "rl.sample", "rl.forward"},
    "sync": {"rl.weight_sync"},
}
#: Trainers that sample, and those of them that score.
SAMPLING = {
    *("A2PO", "Distillation", "GKD", "GMPO", "GOLD", "GRPO", "IWOPD", "OnlineDPO", "RLOO", "SDFT", "SDPO"),
    "ServerDistillation",
}
SCORING = {"A2PO", "GMPO", "GRPO", "OnlineDPO", "RLOO", "SDPO"}
#: Trainers that send their weights to an engine whatever they are told.
SYNCING = {"AsyncDistillation", "AsyncGRPO"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("trainers")


def short_name(kind):
    return kind.__name__.removesuffix("Trainer")


@runs.LATEST
def test_every_trainer_class_of_trl_is_built_here_or_left_out_with_a_reason():
    for name, kind in every_trainer.trainer_classes().items():
        assert name in every_trainer.SKIPPED or kind.__name__ in every_trainer.RECIPES, name


def test_every_module_with_methods_of_its_own_is_patched():
    functions = ("patch:patch_methods", "patch:patch_async_grpo_trainer")
    patched = {module for module, function in TRLInstrumentor.modules.items() if function in functions}

    assert patched == MODULES.keys()


@runs.LATEST
def test_the_trainers_that_are_left_out_add_nothing_to_one_that_is_built():
    classes = every_trainer.trainer_classes()
    for name in every_trainer.SKIPPED:
        [stable] = classes[name].__bases__
        assert stable in classes.values()
        # What `@dataclass` writes, and the constructor that warns.
        own = {attribute for attribute in vars(classes[name]) if not attribute.startswith("__")}
        assert own == set()


@pytest.mark.parametrize("kind", runs.every_class(OFTEN))
def test_phases_cover_the_step_histograms_add_up_and_the_trainer_logs_the_same_as_without_us(
    recorded, folder, monkeypatch, request, kind
):
    def trainer():
        transformers.set_seed(7)
        return every_trainer.make(kind, folder, steps=STEPS, gradient_accumulation_steps=2)

    unwatched = trainer()
    unwatched.train()
    assert recorded.spans == []
    request.getfixturevalue("instrumented")
    watched, clock = trainer(), Clock()
    with monkeypatch.context() as patched:
        patched.setattr(every_trainer, "work", clock.work)
        with injected(watched, clock, patched):
            watched.train()

    spans = recorded.spans
    _check_phases(clock, spans, short_name(kind))
    _check_histograms(recorded.metrics(), spans)
    plain = _logged(unwatched)
    assert _logged(watched) == plain
    losses = [event.body["loss"] for event in recorded.events("rl.step") if "loss" in event.body]
    assert losses == [entry["loss"] for entry in plain if "loss" in entry]


def _logged(trainer):
    """What a trainer has logged, without what depends on the clock."""
    return [
        {
            key: value
            for key, value in entry.items()
            if not any(word in key for word in ("time", "per_second", "flos", "perf/"))
        }
        for entry in trainer.state.log_history
    ]


def _check_phases(clock, spans, name):
    roots = sorted((span for span in spans if span.name == "rl.loop"), key=lambda span: span.start_time)
    assert [root.attributes["rl.loop.iteration"] for root in roots] == list(range(1, STEPS + 1))
    for root in roots:
        members = [span for span in spans if span.context.trace_id == root.context.trace_id]
        [rank] = [span for span in members if span.name == "rl.rank.step"]
        _check_step(root, rank, members)
        _check_places(clock, root, members)
        assert len(members) <= 60, Counter(span.name for span in members)
    found = {span.name for span in spans}
    assert ("rl.sample" in found) == (name in SAMPLING)
    assert ("rl.reward" in found) == (name in SCORING)
    assert ("rl.sync" in found) == (name in SYNCING)
    assert {"rl.train", "rl.forward", "rl.backward", "rl.optimizer", "rl.data_wait"} <= found


def _check_step(root, rank, members):
    """Direct children of the step, and the wait before it."""
    direct = [
        span
        for span in members
        if span.parent is not None and span.parent.span_id in (rank.context.span_id, root.context.span_id)
    ]
    parts = sorted((span for span in direct if span is not rank), key=lambda span: span.start_time)
    for earlier, later in pairwise(parts):
        assert earlier.end_time <= later.start_time, (earlier.name, later.name)
    inside = [span for span in parts if span.parent.span_id == rank.context.span_id]
    covered = sum(span.end_time - span.start_time for span in inside)
    length = rank.end_time - rank.start_time
    assert covered >= 0.95 * length, (covered / PIECE, length / PIECE, [span.name for span in parts])
    for span in parts:
        if span.name == "rl.data_wait":
            assert span.end_time <= rank.start_time


def _check_places(clock, root, members):
    """Every piece of work lies in a span of its kind."""
    for piece in clock.pieces:
        if root.start_time <= piece.start and piece.end <= root.end_time:
            holders = [span for span in members if span.start_time <= piece.start and piece.end <= span.end_time]
            names = {span.name for span in holders}
            assert names & HOLDERS[piece.kind], (piece.kind, names)
            assert len(names & TOP_LEVEL) <= 1, (piece.kind, names)


def _check_histograms(metrics, spans):
    for phase in ("sample", "reward", "train", "sync"):
        whole = sum(point.sum for point in metrics.get(f"rl.{phase}.duration", ()))
        shown = sum(
            span.end_time - span.start_time
            for span in spans
            if span.name == f"rl.{phase}" and "rl.reward.name" not in span.attributes
        )
        assert whole == pytest.approx(shown * 1e-9), phase
    assert metrics["rl.train.duration"][0].count == STEPS
    assert metrics["rl.loop.duration"][0].count == STEPS
    assert sum(point.value for point in metrics["rl.train.steps"]) == STEPS


@pytest.mark.parametrize("kind", runs.every_class(OFTEN))
def test_the_algorithm_is_the_name_of_the_class(kind):
    known = {"Reward": "reward_modeling", "OnlineDPO": "online_dpo", "IWOPD": "iw_opd"}
    known |= {"AsyncGRPO": "grpo", "AsyncDistillation": "distillation", "ServerDistillation": "server_distillation"}
    name = short_name(kind)

    assert algorithm_of(kind) == known.get(name, name.lower())
