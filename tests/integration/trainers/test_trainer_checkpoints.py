"""Checkpoints of the Transformers ``Trainer``: one per folder, with all its files, the best one, and those deleted."""

from __future__ import annotations

import pytest
from test_trainer import make_trainer

from otel_rl.instrumentors.safetensors import SafetensorsInstrumentor
from otel_rl.instrumentors.torch_checkpoint import TorchCheckpointInstrumentor
from otel_rl.training import checkpoints, saved_checkpoints


@pytest.fixture
def files(instrumented, recorded, monkeypatch):
    """The libraries that write the files are instrumented too."""
    monkeypatch.setattr(checkpoints, "SHORTEST", 0.0)
    monkeypatch.setattr(checkpoints, "SMALLEST", 0)
    saved_checkpoints._forget()
    instrumentors = (TorchCheckpointInstrumentor(), SafetensorsInstrumentor())
    for instrumentor in instrumentors:
        instrumentor.instrument()
    yield
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


def _size(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


@pytest.mark.usefixtures("files")
def test_a_checkpoint_of_the_trainer_is_one_with_all_its_files(recorded, tmp_path):
    make_trainer(tmp_path, steps=2, save_steps=1, save_strategy="steps").train()
    events = recorded.events("rl.checkpoint.saved")
    assert [event.attributes["rl.checkpoint.name"] for event in events] == ["checkpoint-1", "checkpoint-2"]
    assert [event.attributes["rl.loop.iteration"] for event in events] == [1, 2]
    assert {event.attributes["rl.checkpoint.format"] for event in events} == {"trainer"}
    assert events[1].attributes["rl.checkpoint.size"] == _size(tmp_path / "checkpoint-2")
    assert [span.name for span in recorded.spans].count("rl.checkpoint") == 2


@pytest.mark.usefixtures("files")
def test_the_end_says_which_is_the_best_and_which_the_trainer_has_deleted(recorded, tmp_path):
    trainer = make_trainer(
        tmp_path,
        steps=3,
        save_steps=1,
        eval_strategy="steps",
        eval_steps=1,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        save_strategy="steps",
    )
    trainer.train()
    saved_checkpoints.check()
    [event] = recorded.events("rl.checkpoint.checked")
    states = dict(zip(event.body["rl.checkpoint.number"], event.body["rl.checkpoint.state"], strict=True))
    assert states == {
        number: "kept" if (tmp_path / f"checkpoint-{number}").exists() else "deleted" for number in (1, 2, 3)
    }
    assert "deleted" in states.values()
    best = trainer.state.best_model_checkpoint
    assert event.attributes["rl.checkpoint.best.name"] == best.rpartition("/")[2]
    assert event.attributes["rl.checkpoint.best.metric"] == "eval_loss"
    assert event.attributes["rl.checkpoint.best.value"] == trainer.state.best_metric


@pytest.mark.usefixtures("files")
def test_a_model_that_the_program_saves_is_a_checkpoint_too(recorded, tmp_path):
    make_trainer(tmp_path / "out").save_model(tmp_path / "final")
    [event] = recorded.events("rl.checkpoint.saved")
    assert event.attributes["rl.checkpoint.name"] == "final"
    assert event.attributes["rl.checkpoint.size"] == _size(tmp_path / "final")
