"""Saves and loads of torch and safetensors: which get a span, which are counted only, and what the run keeps."""

from __future__ import annotations

import io
import os
import threading

import pytest
import torch
from safetensors.torch import load_file, save_file
from unit.checkpoints.conftest import SIZE

import otel_rl
from otel_rl.telemetry import deferral, progress, run_parts
from otel_rl.training import checkpoints, saved_checkpoints


def _counted(recorded, metric="rl.checkpoint.operations"):
    """Values by operation and format since the last look."""
    return {
        (point.attributes["rl.checkpoint.operation"], point.attributes["rl.checkpoint.format"]): point.value
        for point in recorded.metrics().get(metric, ())
        if point.value
    }


@pytest.mark.parametrize("file_format", ["torch", "safetensors"])
def test_a_save_in_a_step_is_a_phase_of_it_and_a_checkpoint_of_the_run(saves, state, tmp_path, file_format):
    save = torch.save if file_format == "torch" else save_file
    with otel_rl.step(3):
        save(state, tmp_path / "model.bin")
    span = saves.span("rl.checkpoint")
    assert span.parent.span_id == saves.span("rl.rank.step").context.span_id
    assert (span.attributes["rl.phase"], span.attributes["rl.loop.iteration"]) == ("checkpoint", 3)
    [event] = saves.events("rl.checkpoint.saved")
    said = dict(event.attributes)
    assert said.pop("rl.checkpoint.duration") > 0
    assert said.pop("rl.checkpoint.size") == (tmp_path / "model.bin").stat().st_size > SIZE
    assert said == {
        "rl.checkpoint.number": 1,
        "rl.checkpoint.name": "model.bin",
        "rl.checkpoint.format": file_format,
        "rl.loop.iteration": 3,
        **{name: value for name, value in said.items() if name.startswith("rl.run") or name == "rl.sampling.priority"},
    }
    assert _counted(saves) == {("save", file_format): 1}


def test_bytes_are_counted_by_operation_and_format(saves, state, tmp_path):
    torch.save(state, tmp_path / "a.pt")
    save_file(state, str(tmp_path / "a.safetensors"))
    torch.load(tmp_path / "a.pt")
    load_file(tmp_path / "a.safetensors")
    sizes = {name: (tmp_path / f"a.{name}").stat().st_size for name in ("pt", "safetensors")}
    assert _counted(saves, "rl.checkpoint.io") == {
        ("save", "torch"): sizes["pt"],
        ("load", "torch"): sizes["pt"],
        ("save", "safetensors"): sizes["safetensors"],
        ("load", "safetensors"): sizes["safetensors"],
    }


def test_a_save_suspends_the_phase_around_it_from_its_beginning_on(saves, state, tmp_path):
    with otel_rl.step(1), otel_rl.phase("train"):
        torch.save(state, tmp_path / "model.pt")
    before, after = [span for span in saves.spans if span.name == "rl.train"]
    saved = saves.span("rl.checkpoint")
    assert before.attributes["rl.suspended"]
    assert before.end_time == saved.start_time
    assert after.start_time == saved.end_time


def test_a_save_to_an_open_file_has_its_size_and_name(saves, state, tmp_path):
    with (tmp_path / "two.pt").open("wb") as file:
        torch.save(state, file)
        first = file.tell()
        torch.save(state, file)
    sizes = [event.attributes["rl.checkpoint.size"] for event in saves.events("rl.checkpoint.saved")]
    assert _counted(saves, "rl.checkpoint.io") == {("save", "torch"): (tmp_path / "two.pt").stat().st_size}
    assert len(sizes) == 2
    assert sizes[0] >= first - 1024


def test_a_save_into_memory_and_a_small_one_are_counted_and_have_no_span(saves, state, tmp_path):
    buffer = io.BytesIO()
    with otel_rl.step(1):
        torch.save(state, buffer)
        torch.save({"step": 1}, tmp_path / "small.pt")
        buffer.seek(0)
        torch.load(buffer)
        torch.load(tmp_path / "small.pt")
    assert [span.name for span in saves.spans if "rank" not in span.name and span.name != "rl.loop"] == []
    assert saves.events("rl.checkpoint.saved") == []
    assert _counted(saves) == {("save", "torch"): 2, ("load", "torch"): 2}


def test_a_process_that_only_saves_small_things_records_nothing(saves, monkeypatch):
    monkeypatch.setattr(checkpoints.lifecycle, "has_recorded", False)
    scope = checkpoints.Scope("of a fresh process")
    monkeypatch.setattr(checkpoints, "_scope", scope)
    torch.save({}, io.BytesIO())
    assert scope._tracer is scope._meter is None


def test_a_failed_save_on_disk_is_a_failed_phase_and_no_checkpoint(saves, state, tmp_path):
    with pytest.raises(RuntimeError, match="does not exist"), otel_rl.step(1):
        torch.save(state, tmp_path / "no folder" / "model.pt")
    assert saves.span("rl.checkpoint").attributes["error.type"] == "RuntimeError"
    assert saves.events("rl.checkpoint.saved") == []


def test_a_save_within_a_phase_of_that_name_opens_none_and_is_a_checkpoint(saves, state, tmp_path):
    with otel_rl.step(1), otel_rl.phase("checkpoint"):
        torch.save(state, tmp_path / "model.pt")
    assert saves.span("rl.checkpoint").attributes["rl.phase"] == "checkpoint"
    assert len(saves.events("rl.checkpoint.saved")) == 1


def test_the_watchdog_knows_that_a_save_is_going_on(saves, tmp_path):
    class Open:
        def __reduce__(self):
            seen.append(progress.open_phases())
            return dict, ()

    seen = []
    torch.save(Open(), tmp_path / "model.pt")
    assert [list(phases) for phases in seen] == [["checkpoint"]]
    assert list(progress.open_phases()) == []


def test_a_load_in_a_step_is_a_phase_and_a_load_before_is_a_part_of_the_run(saves, state, tmp_path, monkeypatch):
    parts = []
    monkeypatch.setattr(run_parts, "add", lambda part, since, error: parts.append((part, error)))
    torch.save(state, tmp_path / "model.pt")
    torch.load(tmp_path / "model.pt")
    with otel_rl.step(1):
        torch.load(tmp_path / "model.pt")
    assert parts == [("checkpoint", None)]
    assert saves.span("rl.load").attributes["rl.phase"] == "load"


def test_a_load_while_a_model_is_loaded_is_part_of_that(saves, state, tmp_path, monkeypatch):
    parts = []
    torch.save(state, tmp_path / "model.pt")
    hooks = run_parts.following("model")
    began = hooks["begin"]()
    monkeypatch.setattr(run_parts, "add", lambda *part: parts.append(part[0]))
    torch.load(tmp_path / "model.pt")
    assert parts == []
    hooks["end"](began, None, None)


def test_the_end_says_which_checkpoints_are_kept_overwritten_and_deleted(saves, state, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.pt", "b.pt", "a.pt", "c.pt"):
        torch.save(state, name)
    monkeypatch.chdir("/")
    (tmp_path / "b.pt").unlink()
    saved_checkpoints.best(str(tmp_path / "c.pt"), "eval_loss", 0.5)
    saved_checkpoints.check()
    [event] = saves.events("rl.checkpoint.checked")
    states = dict(zip(event.body["rl.checkpoint.number"], event.body["rl.checkpoint.state"], strict=True))
    assert states == {1: "overwritten", 2: "deleted", 3: "kept", 4: "kept"}
    assert event.attributes["rl.checkpoint.best.name"] == "c.pt"
    assert event.attributes["rl.checkpoint.best.metric"] == "eval_loss"
    assert event.attributes["rl.checkpoint.best.value"] == 0.5


def _states(recorded):
    saved_checkpoints.check()
    [event] = recorded.events("rl.checkpoint.checked")
    places = zip(event.body["rl.checkpoint.number"], event.body["rl.checkpoint.state"], strict=True)
    return [state for _, state in sorted(places)]


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("save", [torch.save, save_file])
def test_a_file_whose_end_is_missing_is_cut_and_one_that_is_whole_is_smaller(
    saves, monkeypatch, tmp_path, save, is_folder
):
    monkeypatch.setattr(saved_checkpoints, "_LONGEST_CHECK", 60)
    paths = [tmp_path / f"{name}.bin" for name in ("rewritten", "cut", "short", "empty")]
    numbers = []
    for path in paths:
        if is_folder:
            path.mkdir()
        files = [path / "a", path / "b"] if is_folder else [path]
        for file in files:
            save({"a": torch.zeros(SIZE), "b": torch.zeros(SIZE)}, file)
        size = sum(file.stat().st_size for file in files)
        saved_checkpoints.add(str(path), "torch", size, 0.1, deferral.now())
        numbers.append(saved_checkpoints._saved[-1].number)
    rewritten, cut, short, empty = ([path / "a"] if is_folder else [path] for path in paths)
    other = tmp_path / "other"
    save({"a": torch.zeros(SIZE)}, other)
    rewritten[0].write_bytes(other.read_bytes())
    for [file], left in ((cut, SIZE), (short, 20), (empty, 0)):
        os.truncate(file, left)
    states = _states(saves)
    assert [states[number - 1] for number in numbers] == ["smaller", "cut", "cut", "cut"]


def test_a_file_that_has_become_smaller_is_cut_and_not_kept(saves, state, tmp_path):
    for name in ("whole.pt", "cut.pt"):
        torch.save(state, tmp_path / name)
    whole, cut = ((tmp_path / name).stat().st_size for name in ("whole.pt", "cut.pt"))
    os.truncate(tmp_path / "cut.pt", cut // 2)
    assert _states(saves) == ["kept", "cut"]
    assert saves.events("rl.checkpoint.checked")[0].body["rl.checkpoint.size"] == [cut // 2, whole]


def test_checkpoints_that_are_written_under_another_name_and_renamed_are_kept(saves, state, tmp_path):
    for number in range(3):
        torch.save(state, tmp_path / "new.tmp")
        torch.save(state, tmp_path / "new.tmp")
        (tmp_path / "new.tmp").replace(tmp_path / f"{number}.pt")
    assert _states(saves) == ["overwritten", "kept"] * 3


def test_of_a_renamed_checkpoint_that_another_one_replaced_only_the_last_is_there(saves, state, tmp_path):
    for _ in range(2):
        torch.save(state, tmp_path / "new.tmp")
        (tmp_path / "new.tmp").replace(tmp_path / "last.pt")
    torch.save(state, tmp_path / "moved.pt")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "moved.pt").replace(tmp_path / "elsewhere" / "moved.pt")
    assert _states(saves) == ["deleted", "kept", "deleted"]


def test_only_the_latest_checkpoints_are_looked_for(saves, monkeypatch):
    monkeypatch.setattr(saved_checkpoints, "_LONGEST_CHECK", 60)
    for number in range(saved_checkpoints.MOST + 3):
        saved_checkpoints.add(f"/nowhere/{number}", "torch", 1, 0.1, checkpoints.deferral.now())
    saved_checkpoints.check()
    [event] = saves.events("rl.checkpoint.checked")
    assert sorted(event.body["rl.checkpoint.number"]) == list(range(4, saved_checkpoints.MOST + 4))


def test_a_folder_has_the_size_of_its_files_unless_the_file_system_takes_too_long(tmp_path, monkeypatch):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "one").write_bytes(b"1")
    (inner / "three").write_bytes(b"123")
    (tmp_path / "link").symlink_to(inner)
    assert saved_checkpoints.size_of(str(tmp_path)) == 4
    monkeypatch.setattr(saved_checkpoints, "_LONGEST_CHECK", -1)
    assert saved_checkpoints.size_of(str(tmp_path)) is None
    assert saved_checkpoints.size_of(str(tmp_path / "one")) == 1


def test_other_ranks_list_no_checkpoint(saves, state, tmp_path, monkeypatch):
    monkeypatch.setattr(saved_checkpoints, "is_listed_here", lambda: False)
    torch.save(state, tmp_path / "model.pt")
    assert saves.span("rl.checkpoint")
    assert saves.events("rl.checkpoint.saved") == []


def test_threads_that_save_at_once_are_all_counted(saves):
    threads = [threading.Thread(target=lambda: [torch.save({}, io.BytesIO()) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _counted(saves) == {("save", "torch"): 200}
