"""A trainer hands its values to several trackers at once: they are recorded once, as the trainer's."""

from __future__ import annotations

import importlib.util

import pytest

TRACKERS = [
    ("tensorboard", "torch.utils.tensorboard"),
    ("wandb", "wandb"),
    ("mlflow", "mlflow"),
    ("trackio", "trackio"),
]
INSTALLED = [(library, module) for library, module in TRACKERS if importlib.util.find_spec(module.partition(".")[0])]


@pytest.mark.parametrize(
    "instrumented", [[("transformers", "transformers"), *INSTALLED]], indirect=True, ids=["all that are installed"]
)
def test_the_values_of_a_trainer_with_trackers_are_recorded_once(instrumented, logged, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x, labels):
            return {"loss": ((self.layer(x) - labels) ** 2).mean()}

    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"),
        max_steps=4,
        logging_steps=1,
        save_strategy="no",
        per_device_train_batch_size=2,
        report_to=[library for library, _ in INSTALLED],
        use_cpu=True,
        disable_tqdm=True,
    )
    data = [{"x": torch.ones(1), "labels": torch.zeros(1)}] * 8
    transformers.Trainer(model=Model(), args=arguments, train_dataset=data).train()

    assert [step for step, _ in logged.column("loss")] == [1, 2, 3, 4]
    assert logged.column("train/loss") == []
    assert not {key for _, body in logged.calls for key in body if key.startswith("train/")}
