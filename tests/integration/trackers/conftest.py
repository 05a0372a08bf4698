"""Trackers as programs use them, with nothing sent anywhere. Each test runs where its library is installed."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

import pytest

from otel_rl.core import settings
from otel_rl.process import process_identity
from otel_rl.telemetry import drops
from otel_rl.training import configuration, labels, steps

OURS = {one.name: one for one in entry_points(group="opentelemetry_instrumentor") if one.name.startswith("otel_rl_")}


class Logged:
    """What has been recorded of log calls."""

    def __init__(self, recorded) -> None:
        self._recorded = recorded

    @property
    def calls(self):
        """(step, values) of each event."""
        return [(one.attributes.get("rl.loop.iteration"), one.body) for one in self._recorded.events("rl.step")]

    @property
    def parameters(self):
        """All parameters of runs."""
        events = self._recorded.events("rl.run.configuration")
        return {name: value for one in events for name, value in one.body.items()}

    @property
    def gauges(self):
        """Last value by key."""
        points = self._recorded.metrics().get("rl.trainer.metric", ())
        return {point.attributes["rl.trainer.metric.key"]: point.value for point in points}

    def column(self, key):
        """(step, value) of one key."""
        return [(step, body[key]) for step, body in self.calls if key in body]


@pytest.fixture
def logged(recorded, monkeypatch):
    labels.reset()
    settings.reset()
    drops.reset()
    configuration._forget()
    # A program's rank is settled by its first export, which the recorder of the tests does not make.
    monkeypatch.setattr(process_identity, "settled", lambda: True)
    yield Logged(recorded)
    monkeypatch.undo()
    settings.reset()
    labels.reset()


@pytest.fixture
def instrumented(request, logged):
    """The instrumentors named by the test, in place; without the library the test is skipped."""
    instrumentors = []
    for library, module in request.param:
        pytest.importorskip(module)
        kind = OURS[f"otel_rl_{library}"].load()
        for patched in kind.modules:
            importlib.import_module(patched)
        instrumentors.append(kind())
        instrumentors[-1].instrument()
    yield instrumentors
    for instrumentor in instrumentors:
        instrumentor.uninstrument()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_DIR": str(tmp_path),
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "HF_HUB_OFFLINE": "1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def in_step():
    """An open step of a loop of the program."""
    import otel_rl

    with otel_rl.step(17):
        yield
    steps.finish()
