"""TensorBoard, of torch and of tensorboardX: the same tests on both."""

from __future__ import annotations

import importlib
import math
import os

import pytest

from otel_rl.core import settings
from otel_rl.telemetry import drops

TORCH, X = ("tensorboard", "torch.utils.tensorboard"), ("tensorboardx", "tensorboardX")
both = pytest.mark.parametrize("instrumented", [[TORCH], [X]], indirect=True, ids=["torch", "tensorboardX"])


@pytest.fixture
def writer(instrumented, tmp_path):
    module = TORCH[1] if instrumented[0].library == "tensorboard" else X[1]
    writer = importlib.import_module(module).SummaryWriter(str(tmp_path / "board"))
    yield writer
    writer.close()


@both
def test_values_are_recorded_at_their_step(writer, logged):
    for step in range(3):
        writer.add_scalar("train/loss", 1 / (step + 1), step)
        writer.add_scalars("both", {"a": step, "b": -step}, global_step=step)
    assert logged.column("train/loss") == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    assert logged.column("both/b") == [(0, 0), (1, -1), (2, -2)]
    assert logged.gauges["train/loss"] == 1 / 3


@both
@pytest.mark.parametrize("step", [None, "x", 1.5, math.nan])
def test_a_step_that_is_none_makes_a_record_without_one(writer, logged, step):
    writer_file = writer._get_file_writer()
    writer_file.add_summary = lambda *_, **__: None  # TensorBoard itself refuses some of them
    writer.add_scalar("accuracy", 0.5, step)
    assert logged.column("accuracy") == [(None, 0.5)]


@both
def test_the_open_step_of_the_program_counts_where_no_step_is_given(writer, logged, in_step):
    writer.add_scalar("accuracy", 0.5)
    writer.add_scalar("given", 0.5, 3)
    assert logged.column("accuracy") == [(17, 0.5)]
    assert logged.column("given") == [(3, 0.5)]


@both
def test_steps_that_go_back_and_a_key_twice_at_a_step_are_recorded_as_they_are(writer, logged):
    for step, value in ((5, 1.0), (2, 2.0), (2, 3.0)):
        writer.add_scalar("loss", value, step)
    assert logged.column("loss") == [(5, 1.0), (2, 2.0), (2, 3.0)]


@both
def test_numbers_of_other_libraries_are_numbers_and_what_is_not_finite_is_no_gauge(writer, logged):
    np = pytest.importorskip("numpy")
    writer.add_scalar("of numpy", np.float32(0.5), np.int64(3))
    writer.add_scalar("broken", math.nan, 3)
    torch = pytest.importorskip("torch")
    writer.add_scalar("of torch", torch.tensor(2.0, requires_grad=True).detach(), torch.tensor(4))
    assert logged.column("of numpy") == [(3, 0.5)]
    assert logged.column("of torch") == [(4, 2.0)]
    assert [step for step, value in logged.column("broken") if math.isnan(value)] == [3]
    assert not {"broken"} & logged.gauges.keys()
    assert drops.snapshot() == {("metrics", "non_finite"): 1}


@both
def test_texts_and_pictures_are_counted(writer, logged):
    np = pytest.importorskip("numpy")
    writer.add_text("note", "hello", 3)
    writer.add_histogram("weights", np.ones(8), 3)
    writer.add_image("picture", np.zeros((3, 8, 8)), 3)
    assert logged.calls == []
    assert drops.snapshot() == {("logs", "text"): 1, ("logs", "histogram"): 1, ("logs", "image"): 1}


@both
def test_texts_are_in_the_record_only_where_content_is_wanted(writer, logged, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    writer.add_text("note", "hello", 3)
    assert logged.calls == [(3, {"note": "hello"})]
    assert "note" not in logged.gauges


@both
def test_parameters_are_recorded_without_secrets_and_their_values_once(writer, logged):
    writer.add_hparams({"lr": 0.1, "api_key": "abc123def"}, {"hparam/accuracy": 0.9}, global_step=7)
    assert logged.parameters == {"lr": 0.1, "api_key": "***"}
    assert logged.column("hparam/accuracy") == [(7, 0.9)]


@both
def test_what_a_writer_writes_is_the_same_with_us(instrumented, tmp_path, logged):
    module = TORCH[1] if instrumented[0].library == "tensorboard" else X[1]

    def written(folder):
        writer = importlib.import_module(module).SummaryWriter(str(tmp_path / folder))
        writer.add_scalar("loss", 0.5, 1, walltime=1.0)
        writer.add_scalars("both", {"a": 1}, 1, walltime=1.0)
        writer.close()
        return [path.stat().st_size for path in sorted((tmp_path / folder).rglob("events*"))]

    observed = written("with")
    instrumented[0].uninstrument()
    plain = written("plain")
    instrumented[0].instrument()
    assert observed == plain


@both
def test_a_wrong_call_raises_what_it_raised_before(writer, logged, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")  # the arguments do not fit our hooks either
    settings.reset()
    with pytest.raises(TypeError, match="add_scalar"):
        writer.add_scalar("loss")
    with pytest.raises(TypeError, match="should be dictionary"):
        writer.add_hparams([], [])
    assert logged.calls == []


@pytest.mark.parametrize("instrumented", [[TORCH, X]], indirect=True)
def test_two_trackers_with_the_same_values_count_once_by_whatever_key(instrumented, logged, tmp_path):
    first, second = (importlib.import_module(module).SummaryWriter(str(tmp_path / module)) for _, module in (TORCH, X))
    for step in range(3):
        first.add_scalar("train/loss", 1.0 + step, step)
        second.add_scalar("loss", 1.0 + step, step)
        second.add_scalar("own", 5.0, step)
    first.close()
    second.close()
    assert logged.column("train/loss") == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert logged.column("loss") == []
    assert len(logged.column("own")) == 3


@both
def test_a_version_that_is_not_supported_is_left_alone(instrumented, logged, monkeypatch, tmp_path):
    [ours] = instrumented
    ours.uninstrument()
    with monkeypatch.context() as other:
        other.setattr(type(ours), "requirements", (f"{ours.requirements[0].split()[0]} >= 99",))
        ours.instrument()
    assert not ours.is_instrumented_by_opentelemetry
    module = TORCH[1] if ours.library == "tensorboard" else X[1]
    writer = importlib.import_module(module).SummaryWriter(str(tmp_path / "board"))
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
    assert logged.calls == []
    ours.instrument()


@both
def test_keys_have_the_names_that_the_user_gives_them(writer, logged, monkeypatch):
    monkeypatch.setenv("OTEL_RL_LABELS", "train/loss=loss,my/*=eval/*,debug/*=-")
    settings.reset()
    for key in ("train/loss", "my/accuracy", "debug/x", "other"):
        writer.add_scalar(key, 0.5, 1)
    assert logged.calls == [(1, {key: 0.5}) for key in ("loss", "eval/accuracy", "other")]
    assert drops.snapshot() == {("logs", "hidden"): 1}


@pytest.mark.parametrize("instrumented", [[X]], indirect=True)
def test_a_forked_child_records_its_own_calls_and_the_parent_none_of_them(writer, logged):
    writer.add_scalar("loss", 1.0, 1)
    child = os.fork()
    if child == 0:
        # Nothing of pytest runs here. torch's writer would wait for its thread, which a child has not.
        status = 1
        try:
            from otel_rl.training import scalars

            scalars.sink.log_single(_scope(), scalars.Source.TENSORBOARD, 2, "loss", 2.0)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert logged.column("loss") == [(1, 1.0)]


def _scope():
    from otel_rl.telemetry import Scope

    return Scope("test")
