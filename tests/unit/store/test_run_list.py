"""The runs of a folder, listed from summaries, manifests and the ends of files."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import recorded_runs
from unit.report.synthetic_run import SECOND, GrpoRun, process

from otel_rl.process import lifetime
from otel_rl.report import write_report
from otel_rl.semconv import metrics
from otel_rl.semconv.attributes import RL_HEALTH_CODE
from otel_rl.store.reader import process_folders, run_list
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.run_list import list_runs
from otel_rl.store.reader.run_records import LoggedValue, reward_of

if TYPE_CHECKING:
    from otel_rl.store.reader.run_rows import RunRow

MANIFEST = "manifest.json"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real runs that ended in different ways."""
    folder = tmp_path_factory.mktemp("data") / "otel-rl"
    recorded_runs.record(folder, "good", "good")
    recorded_runs.record(folder, "failing", "failing")
    for run, how in (("killed", signal.SIGKILL), ("terminated", signal.SIGTERM), ("interrupted", signal.SIGINT)):
        running = recorded_runs.begin(folder, run, "waiting")
        recorded_runs.wait_until_stepped(running)
        running.send_signal(how)
        running.wait()  # before its input is closed, at which it would end
        running.communicate()
    return folder


@pytest.fixture
def data(ended: Path, tmp_path: Path) -> Path:
    """A copy of them that a test may change."""
    return Path(shutil.copytree(ended, tmp_path / "otel-rl"))


def _by_id(folder: Path) -> dict[str, RunRow]:
    return {row.id: row for row in list_runs(folder)}


def _without(row: RunRow, *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.as_json().items() if name not in names}


def _change_manifest(run: Path, **values: Any) -> None:
    [path] = run.glob(f"*/{MANIFEST}")
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_each_way_to_end_has_the_state_and_the_words_of_the_report(data: Path) -> None:
    rows = _by_id(data)
    states = {run: row.state for run, row in rows.items()}
    assert states == {
        "good": "in order", "failing": "failed", "killed": "gone", "terminated": "stopped", "interrupted": "stopped",
    }  # fmt: skip
    for run, row in rows.items():
        report = write_report(data, None, run)
        assert report.run["end"] == row.state
        if row.failure:
            # The report knows the step from the flight recorder, too.
            assert report.overview.findings[0].text.startswith(row.failure)
            assert (row.severity, row.code, row.finding) == ("critical", "ended", row.failure)
        else:
            assert row.failed == 0


def test_a_run_without_a_summary_has_its_last_step_and_values_from_the_ends_of_its_files(data: Path) -> None:
    row = _by_id(data)["good"]
    assert (row.step, row.steps, row.processes, row.program) == (5, 5, 1, "python")
    assert row.reward is not None
    assert (row.reward.last, row.reward.best, row.reward.best_step) == (0.5, 0.5, 5)
    assert row.loss is not None
    assert row.loss.last == pytest.approx(0.2)
    assert row.seconds is not None
    assert row.ended - row.started == pytest.approx(row.seconds * SECOND)
    killed = _by_id(data)["killed"]
    assert killed.step == 5
    assert killed.failed == killed.last_sign == killed.ended


def test_a_run_whose_process_lives_is_running_until_it_is_killed_whatever_a_report_said_before(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    running = recorded_runs.begin(folder, "live", "waiting")
    try:
        recorded_runs.wait_until_stepped(running)
        [row] = list_runs(folder)
        assert (row.state, row.step, row.ended, row.failure) == ("running", 5, 0, "")
        assert 0 <= time.time_ns() - row.last_sign < 600 * SECOND
        write_report(folder, None)
    finally:
        running.kill()
        running.communicate()
    [row] = list_runs(folder)
    summary = json.loads((folder / "live" / "summary.json").read_text())
    assert (summary["end"]["state"], summary["end"]["is_final"]) == ("running", False)
    assert (row.state, row.code) == ("gone", "ended")
    (folder / "live" / "summary.json").unlink()
    [row] = list_runs(folder)
    assert row.state == "gone"


def test_on_another_machine_a_run_without_an_end_is_not_known_and_has_its_last_sign(data: Path) -> None:
    before = _by_id(data)["killed"]
    [manifest] = (data / "killed").glob(f"*/{MANIFEST}")
    boot, *others = json.loads(manifest.read_text())["lifetime"]
    _change_manifest(data / "killed", lifetime=[f"other-{boot}", *others])
    row = _by_id(data)["killed"]
    assert (row.state, row.ended, row.failure) == ("not known", 0, "")
    assert row.last_sign == before.last_sign


def test_the_last_sign_is_that_of_the_records_and_not_of_a_copy(data: Path) -> None:
    before = _by_id(data)["killed"].last_sign
    for file in (data / "killed").rglob("*"):
        # In the same order.
        os.utime(file, ns=(0, file.stat().st_mtime_ns - 86400 * SECOND))
    assert _by_id(data)["killed"].last_sign == before


def test_a_summary_says_the_same_as_the_files_and_the_report_leaves_one(data: Path) -> None:
    before = _by_id(data)
    for run in before:
        write_report(data, None, run)
    after = _by_id(data)
    assert list(after) == list(before)
    # Texts of the report end with a stop, and it knows arguments, and notices.
    other = ("program", "failure", "finding", "severity", "code", "last_sign", "ended", "seconds", "failed")
    for run, row in after.items():
        # The end of a process says what was best; of one that was killed only the last values are in the last export.
        values = ("reward", "loss") if run == "killed" else ()
        assert _without(row, *other, *values) == _without(before[run], *other, *values)
        assert row.reward is not None
        assert (row.reward.last, row.reward.best) == (0.5, 0.5)
        assert row.failed == pytest.approx(before[run].failed, abs=SECOND)


def test_a_run_that_has_ended_is_listed_from_its_summary_alone(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in ("good", "failing"):
        write_report(data, None, run)
    looked = []
    monkeypatch.setattr(run_list, "look_into", lambda path: looked.append(path) or process_folders.look_into(path))
    list_runs(data)
    assert not [path for path in looked if path.parent.name in ("good", "failing") and path.name != path.parent.name]
    assert [path for path in looked if path.parent.name == "killed"]


def test_what_a_report_found_before_the_run_went_on_is_marked(data: Path) -> None:
    write_report(data, None, "good")
    path = data / "good" / "summary.json"
    content = json.loads(path.read_text())
    content["end"] |= {"is_final": False, "last_sign_unix_nano": content["end"]["last_sign_unix_nano"] - 3600 * SECOND}
    content["steps"]["last"] = 2
    content["findings"]["worst"] = {"severity": "warning", "code": "P9", "title": "Truncation"}
    path.write_text(json.dumps(content))
    row = _by_id(data)["good"]
    assert (row.step, row.finding, row.is_outdated) == (5, "Truncation", True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"format": "otel-rl-summary/99", "end": {"state": "wrong"}}',
        b"[" * 10**5,
    ],
    ids=["empty", "half", "list", "null", "no-text", "other-version", "deep"],
)
def test_a_summary_that_is_broken_or_of_another_version_is_ignored(data: Path, content: bytes) -> None:
    before = _by_id(data)["good"]
    (data / "good" / "summary.json").write_bytes(content)
    assert _by_id(data)["good"] == before


def test_a_pipe_in_the_place_of_a_summary_keeps_no_list_waiting(data: Path) -> None:
    before = _by_id(data)["good"]
    os.mkfifo(data / "good" / "summary.json")
    assert _by_id(data)["good"] == before


@pytest.mark.parametrize("value", [None, [], {}, "text", -1, 2**80, {"id": []}], ids=repr)
def test_a_summary_with_values_of_other_forms_is_a_row(data: Path, value: Any) -> None:
    write_report(data, None, "good")
    path = data / "good" / "summary.json"
    content = json.loads(path.read_text())
    for part in ("run", "end", "steps", "result", "findings"):
        path.write_text(json.dumps({**content, part: value}))
        assert json.loads(json.dumps(_by_id(data)["good"].as_json()))
        for key in content[part]:
            path.write_text(json.dumps({**content, part: {**content[part], key: value}}))
            assert json.loads(json.dumps(list_runs(data / "good")[0].as_json()))


def test_a_value_that_is_no_number_survives_as_json(tmp_path: Path) -> None:
    writer = process(tmp_path / "data" / "run", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    writer.ended = time.time_ns()
    body = {"rl.run.result.key": ["reward"], "rl.run.result.last": [float("nan")], "rl.run.result.best": [0.5]}
    writer.event("rl.run.end", 50.0, body)
    writer.write()
    for _ in ("from files", "from a summary"):
        [row] = list_runs(tmp_path / "data")
        reward = json.loads(json.dumps(row.as_json(), allow_nan=False))["reward"]
        assert (reward["last"], reward["best"]) == ("NaN", 0.5)
        write_report(tmp_path / "data", None)


def _running_with(folder: Path, *steps: dict[str, Any]) -> RunRow:
    """The row of a run whose last export of metrics is from before the values of these steps were logged."""
    writer = process(folder / "run", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    writer.clean_exit = False
    writer.meter.create_gauge(metrics.RL_ENVIRONMENT_REWARD_MEAN.name).set(0.1)
    writer.meter.create_gauge(metrics.RL_LOOP_CURRENT.name).set(1)
    for number, values in enumerate(steps, start=1):
        writer.event("rl.step", 50.0 + number, values, {"rl.loop.iteration": number})
    writer.write()
    [row] = list_runs(folder)
    return row


def test_the_reward_of_a_run_that_goes_on_is_of_the_step_beside_it(tmp_path: Path) -> None:
    row = _running_with(tmp_path, {"reward": 0.1}, {"reward": 0.2, "reward_std": 0.0, "loss": 0.5})
    assert row.step == 2
    assert row.reward is not None
    assert (row.reward.key, row.reward.last, row.reward.last_step) == ("reward", 0.2, 2)
    assert row.loss is not None
    assert (row.loss.last, row.loss.last_step) == (0.5, 2)
    assert row.other_step is None


def test_a_reward_of_an_earlier_step_names_its_step(tmp_path: Path) -> None:
    row = _running_with(tmp_path, {"reward": 0.2}, {"loss": 0.5}, {"reward": True, "loss": 0.4})
    assert row.step == 3
    assert row.reward is not None
    assert (row.reward.last, row.other_step) == (0.2, 1)


@pytest.mark.parametrize("has_ended", [False, True])
def test_scores_outside_of_rollouts_are_the_reward_of_a_loop_that_logs_none(tmp_path: Path, has_ended: bool) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=time.time_ns() - 60 * SECOND)
    for step, score in ((1, 0.1), (2, 0.5), (2, 0.7), (2, math.inf)):
        values = {"gen_ai.evaluation.score.value": score, "rl.loop.iteration": step}
        writer.event("gen_ai.evaluation.result", 50.0 + step, {}, values)
    writer.event("rl.step", 52.5, {"loss": 0.25}, {"rl.loop.iteration": 2})
    writer.clean_exit = has_ended
    writer.write()
    [row] = list_runs(tmp_path)
    assert row.shown is not None
    assert (row.shown.key, row.shown.last, row.shown.last_step) == ("reward", 0.6, 2)


def test_a_driver_that_makes_the_steps_has_the_reward_and_the_loss_that_its_workers_log(tmp_path: Path) -> None:
    run, start = tmp_path / "data" / "run", time.time_ns() - 60 * SECOND
    logged: tuple[dict[str, float], ...] = ({}, {"rollout/raw_reward": 0.5, "rollout/length": 9.0}, {"train/loss": 0.1})
    for number, values in enumerate(logged):
        writer = process(run, number, world_size=3, started=start)
        if values:
            writer.event("rl.step", 50.0, values, {"rl.loop.iteration": 2})
        else:
            writer.meter.create_gauge(metrics.RL_LOOP_CURRENT.name).set(2)
        writer.ended = start + 55 * SECOND
        writer.write()
    for _ in ("from files", "from a summary"):
        [row] = list_runs(tmp_path / "data")
        assert row.reward is not None
        assert (row.reward.key, row.reward.last) == ("rollout/raw_reward", 0.5)
        assert row.loss is not None
        assert (row.loss.key, row.loss.last) == ("train/loss", 0.1)
        write_report(tmp_path / "data", None)


def test_the_reward_of_a_run_that_goes_on_is_of_the_key_that_its_end_would_have(tmp_path: Path) -> None:
    of_verl = {"critic/rewards/max": 1.0, "critic/rewards/min": 0.0, "critic/rewards/mean": 0.25}
    row = _running_with(tmp_path, of_verl, {"val/rewards/of/benchmark": 0.9})
    assert row.reward is not None
    assert (row.reward.key, row.reward.last, row.other_step) == ("critic/rewards/mean", 0.25, 1)
    others = {"reward_std": 0.3, "reward/kl": 2.0, "rewards/accuracy/mean": 0.5}
    row = _running_with(tmp_path / "others", others)
    assert row.reward is not None
    assert row.reward.key == "rewards/accuracy/mean"


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (("timing_s/reward", "critic/rewards/mean", "critic/score/mean"), "critic/rewards/mean"),
        (("return", "reward"), "reward"),
        (("losses/returns", "charts/episodic_return"), "charts/episodic_return"),
        (("eval/reward", "train/reward"), "train/reward"),
        (("eval/reward",), "eval/reward"),
        (("evaluation/mean_reward", "train/mean_episode_reward_all"), "train/mean_episode_reward_all"),
        (("charts/episodic_return", "charts/episode_curiosity_reward"), "charts/episodic_return"),
        # Of slime; the shorter one is normalised, and always 0.
        (("rollout/rewards", "rollout/raw_reward"), "rollout/raw_reward"),
    ],
)
def test_the_reward_of_a_run_is_what_training_was_given(keys: tuple[str, ...], shown: str) -> None:
    reward = reward_of([LoggedValue(key, 1.0, 3) for key in keys])
    assert reward is not None
    assert reward.key == shown


def test_the_reward_of_a_run_is_not_one_that_it_stopped_to_log_long_ago() -> None:
    values = [
        LoggedValue("reward", 99.0, 1),
        LoggedValue("train/reward", 7.0, 8),
        LoggedValue("test/mean_reward", 5.0, 9),
    ]
    assert reward_of(values) == values[1]
    assert reward_of(values[:1]) == values[0]
    assert reward_of([LoggedValue("reward", 1.0)]) == LoggedValue("reward", 1.0)


# -- folders that are not as they should be -------------------------------------------------------------------------


def test_half_a_line_at_the_end_takes_nothing_from_the_lines_before_it(data: Path) -> None:
    before = _by_id(data)["good"]
    for file in (data / "good").glob("*/*.jsonl"):
        with file.open("ab") as stream:
            stream.write(b'{"resourceLogs":[{"resource":{"attri')
    assert _by_id(data)["good"] == before


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"run_id": 5, "lifetime": [1], "rank": "x", "host": {}}'], ids=repr
)
def test_a_manifest_that_was_copied_in_half_is_a_row(data: Path, content: str) -> None:
    [manifest] = (data / "good").glob(f"*/{MANIFEST}")
    manifest.write_text(content)
    row = next(row for row in list_runs(data) if row.path.name == "good")
    assert row.state in ("not known", "in order")
    assert row.remark or content.startswith('{"run_id"')


def test_a_manifest_of_another_version_is_a_row_that_says_so(data: Path) -> None:
    _change_manifest(data / "good", format="otel-rl/7")
    row = _by_id(data)["good"]
    assert row.remark == "written by another version (otel-rl/7, this one reads otel-rl/1)"
    assert row.state == "in order"


def test_a_folder_that_is_being_copied_or_deleted_is_a_row_that_says_so(data: Path) -> None:
    for file in (data / "good").glob("*/*"):
        file.unlink()
    row = _by_id(data)["good"]
    assert (row.state, row.remark) == (
        "not known", "it holds no records: it is being copied or deleted, or nothing has been written yet",
    )  # fmt: skip


@pytest.mark.parametrize("moment", ["run", "process", "file"])
def test_a_folder_that_vanishes_while_it_is_read_stops_no_list(
    data: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def vanish(path: Path) -> Any:
        if moment == "run" and path == data / "good":
            shutil.rmtree(path)
        if moment == "process" and path.parent == data / "good":
            shutil.rmtree(path)
        found = process_folders.look_into(path)
        if moment == "file" and path.parent == data / "good":
            shutil.rmtree(path)
        return found

    monkeypatch.setattr(run_list, "look_into", vanish)
    monkeypatch.setattr(run_list, "_is_run", lambda _: False)
    rows = list_runs(data)
    assert len(rows) == 5
    row = next(row for row in rows if row.path.name == "good")
    assert row.remark or moment == "file"


def test_folders_of_other_things_are_no_runs(data: Path) -> None:
    (data / "notes").mkdir()
    (data / "notes" / "a.txt").write_text("mine")
    (data / "empty").mkdir()
    (data / "file.txt").write_text("mine")
    assert len(list_runs(data)) == 5


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_run_that_may_not_be_read_is_a_row_that_says_so(data: Path) -> None:
    (data / "good").chmod(0)
    try:
        assert _by_id(data)["good"].remark == "no permission to read it"
    finally:
        (data / "good").chmod(0o700)


def test_a_folder_without_a_run_is_refused_as_the_report_does(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UnusableInput) as refused:
            list_runs(folder)
        with pytest.raises(UnusableInput) as by_report:
            write_report(folder, None)
        assert str(refused.value) == str(by_report.value)


@pytest.mark.parametrize("depth", [1, 2])
def test_one_run_and_one_process_can_be_given(data: Path, depth: int) -> None:
    folder = data / "good" if depth == 1 else next(path for path in (data / "good").iterdir() if path.is_dir())
    [row] = list_runs(folder)
    assert (row.id, row.state, row.path) == ("good", "in order", folder)


def test_hostile_names_and_messages_are_kept_as_they_are_and_bounded(data: Path) -> None:
    name = "\x1b[31m<script>alert(1)</script>\n" + "x" * 10_000
    _change_manifest(data / "failing", run_id=name, command=name, host=name)
    row = next(row for row in list_runs(data) if row.path.name == "failing")
    assert row.id == row.program == row.hosts[0] == name[:500]
    assert "<script>alert(1)</script>" in row.failure


# -- attempts, collectors, order ------------------------------------------------------------------------------------


def test_the_state_is_that_of_the_latest_attempt(tmp_path: Path) -> None:
    run, start = tmp_path / "data" / "run", time.time_ns() - 100 * SECOND
    for number, is_clean in enumerate((False, True)):
        writer = process(run, 0, world_size=1, started=start + number * 40 * SECOND, rl__run__attempt=f"{number}.0.0")
        writer.clean_exit, writer.ended = is_clean, start + (number * 40 + 30) * SECOND
        writer.exit_reason = None if is_clean else "uncaught RuntimeError"
        writer.write()
    [row] = list_runs(tmp_path / "data")
    assert (row.state, row.attempt, row.processes, row.failure) == ("in order", "1.0.0", 2, "")


def test_of_several_ranks_the_gravest_end_counts_and_the_first_to_fail_is_named(tmp_path: Path) -> None:
    GrpoRun(tmp_path / "data").write()
    [row] = list_runs(tmp_path / "data")
    assert (row.state, row.processes, row.world_size) == ("failed", 2, 2)
    assert row.failure.startswith("rank 1 failed: torch.OutOfMemoryError: out of memory while saving")


def test_of_many_processes_that_are_gone_only_some_logs_are_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [place] = (path for path in (data / "killed").iterdir() if path.is_dir())
    for rank in range(100):
        shutil.copytree(place, place.with_name(f"host-rank{rank}-{rank:08x}"))
    read: list[tuple[Path, int | None]] = []
    lines_from_end = process_folders.lines_from_end
    monkeypatch.setattr(
        process_folders, "lines_from_end", lambda path, most: read.append((path, most)) or lines_from_end(path, most)
    )
    row = _by_id(data / "killed")["killed"]
    assert (row.state, row.processes) == ("gone", 101)
    assert len(read) < 40
    assert {most for _, most in read} == {1 << 20}


def test_runs_in_the_files_of_a_collector_are_listed_from_their_ends(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "output" / "collector"
    output.mkdir(parents=True)
    for signal_name in ("traces", "metrics", "logs"):
        parts = (data / run / "*" / f"{signal_name}*.jsonl" for run in ("good", "failing"))
        lines = [path.read_bytes() for part in parts for path in sorted(tmp_path.glob(str(part.relative_to(tmp_path))))]
        (output / f"{signal_name}.jsonl").write_bytes(b"".join(lines))
    for folder in (output, output.parent):
        rows = _by_id(folder)
        assert {run: row.state for run, row in rows.items()} == {"good": "in order", "failing": "failed"}
        assert rows["good"].step == 5
        assert rows["good"].path == output
        assert "files of a collector" in rows["good"].remark


def _many(folder: Path, number: int) -> None:
    start = time.time_ns() - 10 * number * SECOND
    for index in range(number):
        place = folder / f"run-{index:05d}" / f"host-rank0-{index:08x}"
        place.mkdir(parents=True)
        moments = {"started_unix_nano": start + index * SECOND, "ended_unix_nano": start + (index + 5) * SECOND}
        content = {"format": "otel-rl/1", "run_id": f"run-{index:05d}", "rank": 0, "clean_exit": True, **moments}
        (place / MANIFEST).write_text(json.dumps(content))
        os.utime(place.parent, ns=(moments["started_unix_nano"],) * 2)


def test_5000_runs_are_listed_in_the_order_of_their_starts_and_of_the_newest_no_other_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _many(tmp_path, 5000)
    looked = []
    monkeypatch.setattr(run_list, "look_into", lambda path: looked.append(path) or process_folders.look_into(path))
    rows = list_runs(tmp_path, newest=20)
    assert [row.id for row in rows] == [f"run-{index:05d}" for index in range(4999, 4979, -1)]
    assert len({path for path in looked if path.parent != tmp_path}) < 40
    assert [row.id for row in list_runs(tmp_path)] == [f"run-{index:05d}" for index in range(4999, -1, -1)]


def test_a_report_that_was_made_anew_makes_no_run_newer(data: Path) -> None:
    order = [row.id for row in list_runs(data)]
    oldest = order[-1]
    write_report(data, None, oldest)
    assert list_runs(data)[-1].id == oldest
    assert [row.id for row in list_runs(data, newest=1)] == order[:1]


def test_a_list_imports_nothing_heavy() -> None:
    code = (
        "import sys; import otel_rl.store.reader.run_list\n"
        "heavy = {'numpy', 'bokeh', 'jinja2', 'torch', 'opentelemetry.sdk', 'otel_rl.report'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_health_rule_is_named_without_its_number(tmp_path: Path) -> None:
    writer = process(tmp_path / "run", 0, world_size=1, started=time.time_ns() - 10 * SECOND)
    writer.meter.create_gauge(metrics.RL_HEALTH.name).set(2, {RL_HEALTH_CODE: "P7_slow_step"})
    writer.write()
    (row,) = list_runs(tmp_path)
    assert (row.severity, row.code, row.finding) == ("critical", "P7_slow_step", "slow step")


@pytest.mark.parametrize(("later", "who"), [(40, "4000"), (90, "4001")], ids=["with it", "long after it"])
def test_what_began_first_is_named_unless_it_made_records_long_after_the_first_of_the_dead(
    tmp_path: Path, later: int, who: str
) -> None:
    for pid, begun, last in ((4000, 0, 100 + later), (4001, 50, 100)):
        started = time.time_ns() - (1000 - begun) * SECOND
        one = process(tmp_path / "otel-rl" / "run", None, started=started, process__pid=pid)
        one.span("rl.tool", last - begun - 1, last - begun)
        one.clean_exit, one.ended = False, None
        one.write()
        for stream in ("logs", "metrics"):
            (one.folder / f"{stream}-0001.jsonl").unlink()
        gone = lifetime.own()._replace(pid=2**22 + pid)
        path = one.folder / MANIFEST
        path.write_text(json.dumps({**json.loads(path.read_text()), "lifetime": list(gone)}))
    (row,) = list_runs(tmp_path / "otel-rl")
    assert who in row.failure, row
