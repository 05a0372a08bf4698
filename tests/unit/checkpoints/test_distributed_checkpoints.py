"""``torch.distributed.checkpoint``: one record per save, whatever it calls inside, and two spans in the background."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from unit.checkpoints.test_saves_and_loads import _counted

import otel_rl
from otel_rl.training import saved_checkpoints

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _wait(future):
    """Wait for the callbacks: those who wait for the result go on before them."""
    called = threading.Event()
    future.add_done_callback(lambda _: called.set())
    assert called.wait(60)


def _bytes(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


def test_a_save_is_one_phase_one_checkpoint_and_one_operation(saves, state, tmp_path):
    with otel_rl.step(1):
        dcp.save(state, checkpoint_id=tmp_path / "step-1")
    assert saves.span("rl.checkpoint")
    [event] = saves.events("rl.checkpoint.saved")
    assert event.attributes["rl.checkpoint.name"] == "step-1"
    assert event.attributes["rl.checkpoint.size"] == _bytes(tmp_path / "step-1")
    assert _counted(saves) == {("save", "distributed"): 1}


def test_writers_in_threads_of_their_own_belong_to_the_save(saves, tmp_path):
    state = {f"weight{number}": torch.ones(1 << 16) for number in range(8)}
    writer = dcp.FileSystemWriter(tmp_path / "step-1", thread_count=4)
    dcp.save(state, storage_writer=writer)
    assert len(saves.events("rl.checkpoint.saved")) == 1
    assert _counted(saves) == {("save", "distributed"): 1}


def test_of_a_checkpoint_on_another_machine_no_size_and_no_end_is_known(saves, state, tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecWriter

    monkeypatch.chdir(tmp_path)
    with otel_rl.step(1):
        dcp.save(state, checkpoint_id="memory://run/1", storage_writer=FsspecWriter("memory://run/1"))
    assert saves.span("rl.checkpoint")
    [event] = saves.events("rl.checkpoint.saved")
    assert event.attributes["rl.checkpoint.name"] == "1"
    assert event.attributes.get("rl.checkpoint.size", 1) > 0
    saved_checkpoints.check()
    [checked] = saves.events("rl.checkpoint.checked")
    assert checked.body["rl.checkpoint.number"] == []


def test_a_load_is_one_phase(saves, state, tmp_path):
    dcp.save(state, checkpoint_id=tmp_path / "step-1")
    with otel_rl.step(1):
        dcp.load({"weight": torch.empty_like(state["weight"])}, checkpoint_id=tmp_path / "step-1")
    assert saves.span("rl.load")
    assert _counted(saves) == {("save", "distributed"): 1, ("load", "distributed"): 1}


@pytest.mark.parametrize("by_writer", [False, True])
def test_an_asynchronous_save_is_a_phase_while_it_copies_and_a_span_until_it_is_written(
    saves, state, tmp_path, group, by_writer
):
    folder = tmp_path / "step-1"
    target = {"storage_writer": dcp.FileSystemWriter(folder)} if by_writer else {"checkpoint_id": folder}
    with otel_rl.step(1):
        _wait(dcp.async_save(state, **target))
    stage, persist = saves.span("rl.checkpoint"), saves.span("rl.checkpoint.persist")
    assert persist.parent.span_id == stage.context.span_id
    assert stage.end_time <= persist.start_time < persist.end_time
    assert "rl.phase" not in persist.attributes
    [event] = saves.events("rl.checkpoint.saved")
    assert event.attributes["rl.checkpoint.size"] == _bytes(folder)
    assert _counted(saves) == {("stage", "distributed"): 1, ("persist", "distributed"): 1}


def test_an_asynchronous_save_that_fails_has_a_failed_span_and_is_no_checkpoint(saves, state, tmp_path, group):
    (tmp_path / "file").touch()
    future = dcp.async_save(state, checkpoint_id=tmp_path / "file" / "step-1")
    _wait(future)
    assert future.exception() is not None
    assert "error.type" in saves.span("rl.checkpoint.persist").attributes
    assert saves.events("rl.checkpoint.saved") == []
