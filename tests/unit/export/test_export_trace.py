"""A run as Chrome JSON: every span, on the right track, with arrows, values and findings; always valid."""

from __future__ import annotations

import gzip
import json
import math
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from unit.export.recorded_lines import BEGAN, Lines, at
from unit.report.synthetic_run import GrpoRun, write_agent_run

from otel_rl.export import export_trace
from otel_rl.export.excerpt import RunExcerpt
from otel_rl.export.lanes import THREADS
from otel_rl.store.reader import UnusableInput

ALL = RunExcerpt()
EVIL = "</script><img src=x onerror=alert(1)>\u2028\ud800 \"'\\ \x00 \U0001f600"


def _strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def _export(run: Path, excerpt: RunExcerpt = ALL, **more: Any) -> tuple[list[dict[str, Any]], list[str]]:
    done = export_trace(run, run.parent / "out.json", excerpt, **more)
    content = _strict(done.output.read_text(encoding="utf-8"))
    assert {path.name for path in run.parent.iterdir() if path.name.startswith(".")} == set(), "left behind"
    return content["traceEvents"], done.notes


def _slices(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] in "Xb" and event.get("cat") != "event"]


def _tracks(events: list[dict[str, Any]]) -> dict[tuple[int, int], str]:
    return {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}


def _arrows(events: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    """The slices that each arrow leads over: the innermost one of its track at its time, as Perfetto binds it."""
    flows: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for arrow in (event for event in events if event["ph"] in "stf"):
        place = arrow["pid"], arrow["tid"]
        around = [
            one
            for one in events
            if one["ph"] == "X"
            and (one["pid"], one["tid"]) == place
            and one["ts"] <= arrow["ts"] < one["ts"] + max(one["dur"], 0.001)
        ]
        flows[arrow["id"]].append((arrow["ts"], max(around, key=lambda one: (one["ts"], -one["dur"]))["name"]))
    return sorted([name for _, name in sorted(flow, key=lambda one: one[0])] for flow in flows.values())


@pytest.fixture
def rollout_run(tmp_path: Path) -> Path:
    """A step of rank 0 with a rollout: its call goes to an engine of its own, its reward follows."""
    trainer = Lines(tmp_path / "run")
    step = {"rl__loop__iteration": 3}
    trainer.span("rl.sample", 110, 300, "sample", "step", rl__phase="sample", **step)
    trainer.span("rl.train", 300, 400, "train", "step", rl__phase="train", **step)
    trainer.span("rl.rank.step", 100, 400, "step", **step)
    call = {"gen_ai__operation__name": "chat", "server__address": "10.0.0.9", "server__port": 8000}
    trainer.span("chat m", 130, 200, "call", "rollout", "t2", **call)
    trainer.span("execute_tool", 205, 220, "tool", "rollout", "t2", gen_ai__tool__name="search")
    trainer.span("rl.reward", 230, 240, "reward", "rollout", "t2", rl__phase="reward")
    trainer.span("rl.rollout", 120, 250, "rollout", "", "t2", links=(("t1", "step"),), **step)
    trainer.log("rl.step", 400, {"loss": 0.25, "bad": math.nan, "note": "text"}, rl__loop__iteration=3)
    trainer.gauge("queue", 150, 4.5, server="a")
    trainer.write()
    engine = Lines(tmp_path / "run", rank=None, role="engine")
    engine.span("llm_request", 140, 190, "request", "call", "t2")
    engine.write()
    return tmp_path / "run"


def test_every_span_is_a_slice_with_its_ids_and_attributes(rollout_run: Path) -> None:
    events, _ = _export(rollout_run)
    slices = _slices(events)
    assert len(slices) == 8
    [call] = [one for one in slices if one["name"] == "chat m"]
    assert (call["ts"], call["dur"]) == (30_000.0, 70_000.0)
    assert call["args"]["server.address"] == "10.0.0.9"
    assert (call["args"]["otel.trace_id"], call["args"]["otel.parent_id"]) == ("t2", "rollout")


def test_times_count_from_the_first_moment_which_the_file_tells(rollout_run: Path) -> None:
    export_trace(rollout_run, rollout_run.parent / "out.json", ALL)
    content = json.loads((rollout_run.parent / "out.json").read_text())
    assert content["baseTimeNanoseconds"] == at(100)
    assert content["otherData"]["origin_unix_nano"] == str(at(100))
    assert min(one["ts"] for one in _slices(content["traceEvents"])) == 0


def test_nanoseconds_survive(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "run")
    lines.span("first", 0, 1, "a")
    lines.span("late", 86_400_000 * 30 + 0.000001, 86_400_000 * 30 + 0.000004, "b")
    events, _ = _export(lines.write())
    [late] = [one for one in _slices(events) if one["name"] == "late"]
    assert (late["ts"], late["dur"]) == (30 * 86_400e6 + 0.001, 0.003)


@pytest.mark.parametrize(("days", "grain"), [(103, 1), (105, 1000), (834, 2000), (20_000, 64_000)])
def test_a_clock_that_is_wrong_by_years_leaves_times_that_perfetto_computes_exactly(
    tmp_path: Path, days: int, grain: int
) -> None:
    lines, late = Lines(tmp_path / "run"), days * 86_400_000.0
    lines.span("wrong", 0, 1, "w")
    lines.span("child", late + 0.000700, late + 5.000123, "c", "p", "t2")
    lines.span("parent", late + 0.000123, late + 5.000123, "p", "", "t2")
    events, notes = _export(lines.write())
    times = {one["name"]: (one["ts"], one["dur"]) for one in _slices(events)}
    # As Perfetto computes them, and as they should be.
    for start, length in times.values():
        assert int(start * 1000) == round(start * 1000)
        assert round(start * 1000) % grain == 0
        assert int(start * 1000) + int(length * 1000) == round(start * 1000) + round(length * 1000)
    assert sum(times["child"]) == sum(times["parent"])
    assert any("days apart" in note for note in notes) == (grain > 1)


def test_engine_tool_rollouts_and_steps_have_tracks_of_their_own(rollout_run: Path) -> None:
    events, _ = _export(rollout_run)
    tracks = _tracks(events)
    where = {one["name"]: tracks[one["pid"], one["tid"]] for one in _slices(events)}
    assert where == {
        "rl.rank.step": "steps",
        "rl.sample": "steps",
        "rl.train": "steps",
        "rl.rollout": "rollouts",
        "rl.reward": "rollouts",
        "chat m": "engine 10.0.0.9:8000",
        "execute_tool": "tool search",
        "llm_request": "engine",
    }
    names = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert sorted(names.values()) == ["engine 7", "rank 0 (trainer)"]
    order = {one["pid"]: one["args"]["sort_index"] for one in events if one["name"] == "process_sort_index"}
    assert min(order, key=order.__getitem__) == next(pid for pid, name in names.items() if name.startswith("rank 0"))


def test_the_stages_of_a_request_lie_in_its_call_and_those_of_separate_servers_beside_it(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "run")
    call = {"gen_ai__operation__name": "chat", "server__address": "10.0.0.9", "server__port": 8000}
    lines.span("chat a", 100, 200, "a", **call, rl__engine__queue_time=0.02, rl__engine__time_to_first_token=0.05)
    lines.span("chat b", 300, 400, "b", **call, rl__engine__prefill_time=0.04, rl__engine__transfer_time=0.01)
    lines.write()

    events, _ = _export(tmp_path / "run")
    tracks = _tracks(events)
    found = {
        (tracks[one["pid"], one["tid"]], one["name"]): (one["ts"] / 1000, one["dur"] / 1000) for one in _slices(events)
    }
    assert found == {
        ("engine 10.0.0.9:8000", "chat a"): (0, 100),
        ("engine 10.0.0.9:8000", "queue"): (0, 20),
        ("engine 10.0.0.9:8000", "prefill"): (20, 30),
        ("engine 10.0.0.9:8000", "chat b"): (200, 100),
        ("engine 10.0.0.9:8000 [P]", "prefill"): (200, 40),
        ("engine 10.0.0.9:8000 [D]", "transfer"): (290, 10),
    }


def test_arrows_lead_from_the_rollout_over_its_call_to_the_engine_and_over_its_reward_to_its_step(
    rollout_run: Path,
) -> None:
    events, _ = _export(rollout_run)
    assert _arrows(events) == [
        ["chat m", "llm_request"],
        ["rl.rollout", "chat m"],
        ["rl.rollout", "execute_tool"],
        ["rl.rollout", "rl.reward", "rl.train"],
    ]


def test_an_arrow_that_would_lead_back_in_time_is_left_out_and_counted(tmp_path: Path) -> None:
    client, server = Lines(tmp_path / "run"), Lines(tmp_path / "run", rank=1)
    client.span("call", 100, 200, "a")
    server.span("serve", 10, 20, "b", "a")
    client.write()
    events, notes = _export(server.write())
    assert _arrows(events) == []
    assert any("1 arrows that would lead back in time" in note for note in notes)


def test_values_are_counters_at_their_time(rollout_run: Path) -> None:
    events, notes = _export(rollout_run)
    counters = [(one["name"], one["ts"], one["args"]["value"]) for one in events if one["ph"] == "C"]
    assert sorted(counters) == [("loss", 300_000.0, 0.25), ("queue {server=a}", 50_000.0, 4.5)]
    assert any("1 values that are NaN or infinite" in note for note in notes)


def test_findings_are_marks_over_all_tracks_at_the_step_where_they_begin(tmp_path: Path) -> None:
    events, _ = _export(GrpoRun(tmp_path / "data").write())
    found = [one for one in events if one.get("cat") == "finding"]
    assert {(one["ph"], one["s"]) for one in found} == {("i", "g")}
    [death] = [one for one in found if "OutOfMemory" in one["name"]]
    assert death["name"].startswith("critical: ")
    assert death["args"]["severity"] == "critical"
    assert len(death["args"]["text"]) >= 20


def test_without_the_extra_report_the_findings_are_left_out_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from otel_rl.report import subjects

    def load() -> None:
        raise ModuleNotFoundError("No module named 'bokeh'", name="bokeh.plotting")

    monkeypatch.setattr(subjects, "load", load)
    events, notes = _export(GrpoRun(tmp_path / "data").write())
    assert [one for one in events if one.get("cat") == "finding"] == []
    assert len(_slices(events)) > 100
    assert any("they need bokeh; install otel-rl with its extra `report`" in note for note in notes)


def test_findings_can_be_left_out(tmp_path: Path) -> None:
    events, notes = _export(GrpoRun(tmp_path / "data").write(), with_findings=False)
    assert [one for one in events if one.get("cat") == "finding"] == []
    assert not any("findings" in note for note in notes)


def test_errors_and_events_of_spans_are_instants(tmp_path: Path) -> None:
    events, _ = _export(GrpoRun(tmp_path / "data").write())
    assert [one["s"] for one in events if one["name"] == "rl.process.exception"] == ["p"]
    assert {one["s"] for one in events if one["name"] == "torch.distributed.collective"} == {"t"}


def test_a_run_without_steps_has_its_rollouts(tmp_path: Path) -> None:
    events, _ = _export(write_agent_run(tmp_path / "data"))
    assert sum(one["name"] == "rl.rollout" for one in _slices(events)) == 12
    assert ["rl.rollout", "chat tiny-qwen"] not in _arrows(events), "its parent is the agent, not the rollout"
    assert ["invoke_agent solver", "chat tiny-qwen"] in _arrows(events)


def test_more_spans_beside_each_other_than_lanes_are_all_there_and_lost_arrows_are_counted(tmp_path: Path) -> None:
    lines, more = Lines(tmp_path / "run"), 5
    lines.span("parent", 0, 1000, "p")
    for number in range(THREADS + more):
        lines.span("chat m", 10 + number, 900, f"c{number}", "p", gen_ai__operation__name="chat")
    events, notes = _export(lines.write())
    assert len(_slices(events)) == 1 + THREADS + more
    assert sum(one["ph"] == "b" for one in events) == sum(one["ph"] == "e" for one in events) == more
    assert any(f"{more} arrows from or to spans that more than 32" in note for note in notes)


@pytest.mark.parametrize("where", ["name", "attribute", "key", "tool", "process"])
def test_hostile_text_leaves_valid_json(tmp_path: Path, where: str) -> None:
    lines = Lines(tmp_path / "run", resource={"rl.role": EVIL, "host.name": EVIL} if where == "process" else {})
    given: dict[str, Any] = {"attribute": {"a": EVIL}, "key": {EVIL: 1}, "tool": {"gen_ai.tool.name": EVIL}}
    lines.span(EVIL if where == "name" else "s", 0, 1, EVIL, EVIL, EVIL, **given.get(where, {}))
    lines.log("rl.step", 1, {EVIL: 1.0})
    lines.log(EVIL, 1, {EVIL: [EVIL]}, severity=17)
    events, _ = _export(lines.write())
    assert len(_slices(events)) == 1


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 2**62, [1.0, math.nan], {"x": math.inf}])
def test_numbers_that_json_does_not_have_leave_valid_json(tmp_path: Path, number: Any) -> None:
    lines = Lines(tmp_path / "run")
    lines.span("s", 0, 1, "a", number=number)
    events, _ = _export(lines.write())
    assert "number" in _slices(events)[0]["args"]


def test_spans_without_a_time_are_counted_and_do_not_move_the_origin(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "run")
    lines.span("good", 5, 6, "a")
    lines.span("none", 0, 1, "b")
    lines.spans[1].update(startTimeUnixNano="0", endTimeUnixNano="12")
    lines.span("beyond", 0, 1, "c")
    lines.spans[2].update(endTimeUnixNano=str(2**63 + 5))
    events, notes = _export(lines.write())
    assert [(one["name"], one["ts"]) for one in _slices(events)] == [("good", 0.0)]
    assert any("2 spans without a time" in note for note in notes)


def test_half_a_line_of_a_run_that_is_still_written_is_told(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=3).write()
    file = next(run.glob("*/traces-0001.jsonl"))
    file.write_bytes(file.read_bytes() + b'{"resourceSpans": [{"resour')
    events, notes = _export(run)
    assert len(_slices(events)) > 10
    assert any("1 line cut off" in note for note in notes)


def test_a_run_without_a_record_is_an_empty_trace(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "node-rank0-1"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    events, _ = _export(tmp_path / "run")
    assert _slices(events) == []


def test_the_output_of_a_collector_has_each_process_on_tracks_of_its_own(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=3).write()
    collected = tmp_path / "collected"
    collected.mkdir()
    for signal in ("traces", "logs", "metrics"):
        files = sorted(run.glob(f"*/{signal}-*.jsonl"))
        (collected / f"{signal}.jsonl").write_bytes(b"".join(file.read_bytes() for file in files))
    events, _ = _export(collected)
    names = [one["args"]["name"] for one in events if one["name"] == "process_name"]
    assert sorted(names) == ["rank 0 (trainer)", "rank 1 (trainer)"]
    assert len(_slices(events)) == len(_slices(_export(run)[0]))


def test_a_run_of_an_older_version_is_exported(tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(Path(__file__).parents[1] / "report" / "recorded_by_0_1_0", old)
    events, _ = _export(old)
    assert _slices(events)


def test_only_the_wanted_steps_and_what_happened_meanwhile_are_exported(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=9).write()
    events, _ = _export(run, RunExcerpt(steps=(4, 5)))
    steps = {one["args"]["rl.loop.iteration"] for one in _slices(events) if "rl.loop.iteration" in one["args"]}
    assert steps == {4, 5}
    tools = [one for one in _slices(events) if one["cat"] == "tool"]
    assert len(tools) == 2, "those of step 4; a tool has no number of a step"
    values = {one["args"]["value"] for one in events if one["ph"] == "C" and one["name"] == "epoch"}
    assert values == {4 / 9, 5 / 9}
    with pytest.raises(UnusableInput, match="no step from 40 to 50; it has steps 1 to 9"):
        _export(run, RunExcerpt(steps=(40, 50)))


def test_only_the_wanted_ranks_are_exported(tmp_path: Path) -> None:
    events, _ = _export(GrpoRun(tmp_path / "data", steps=3).write(), RunExcerpt(ranks=frozenset({1})))
    names = {one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert names == {"rank 1 (trainer)"}


def test_a_file_that_ends_with_gz_is_compressed_and_the_default_lies_in_the_run(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=2).write()
    done = export_trace(run, None, ALL)
    assert done.output == run / "perfetto.json.gz"
    assert _strict(gzip.decompress(done.output.read_bytes()).decode())["traceEvents"]
    again = export_trace(run, None, ALL)
    assert again.output == done.output


@pytest.mark.parametrize("name", ["traces.json", "traces-2.jsonl", "logs.json"])
def test_a_name_that_would_be_read_as_telemetry_is_refused(tmp_path: Path, name: str) -> None:
    run = GrpoRun(tmp_path / "data", steps=2).write()
    with pytest.raises(UnusableInput, match="would be read as telemetry"):
        export_trace(run, run / name, ALL)


def test_a_failure_leaves_the_file_before_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from otel_rl.export import trace_file

    run, target = GrpoRun(tmp_path / "data", steps=2).write(), tmp_path / "out.json"
    target.write_text("before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace_file, "_put_values", fail)
    with pytest.raises(UnusableInput, match="No space left on device; name a file in another place"):
        export_trace(run, target, ALL)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.json"]
    assert target.read_text() == "before"


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=2).write()
    with pytest.raises(UnusableInput, match="is no folder; create it first"):
        export_trace(run, tmp_path / "nothing" / "out.json", ALL)


# -- traces of PyTorch's profiler -------------------------------------------------------------------------------------


def _kineto(path: Path, offset: float, pid: Any = 4587, base: int = BEGAN) -> Path:
    events = [
        {"ph": "M", "name": "process_name", "ts": 0, "pid": pid, "tid": 0, "args": {"name": "python"}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": pid, "ts": offset, "dur": 5.25},
        {"ph": "s", "id": 3, "cat": "ac2g", "name": "ac2g", "pid": pid, "tid": pid, "ts": offset},
        {"ph": "X", "name": "kernel", "pid": 0, "tid": "stream 7", "ts": offset + 1, "dur": 2.5, "args": {"x": 1.5}},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": offset + 9},
    ]
    content = {"schemaVersion": 1, "baseTimeNanoseconds": base, "traceEvents": events, "traceName": "x"}
    packed = json.dumps(content, indent=1).encode()
    path.write_bytes(gzip.compress(packed) if path.name.endswith(".gz") else packed)
    return path


def test_profiler_traces_in_the_runs_folder_and_given_ones_are_on_the_same_clock(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "run")
    lines.span("rl.train", 50, 100, "a")
    run = lines.write()
    _kineto(run / "worker.1.pt.trace.json", 60_000.125)
    given = _kineto(tmp_path / "other.json.gz", 70_000)
    events, _ = _export(run, torch=[given])
    operators = sorted((one for one in events if one["name"] == "aten::mm"), key=lambda one: one["ts"])
    assert [(one["ts"], one["dur"]) for one in operators] == [(10_000.125, 5.25), (20_000.0, 5.25)]
    assert len({one["pid"] for one in events if one["name"] in ("aten::mm", "kernel")}) == 4
    assert len({one["id"] for one in events if one.get("cat") == "ac2g"}) == 2
    names = {one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert {"profiler worker: python 4587", "profiler other: python 4587"} < names
    assert "stream 7" in _tracks(events).values()
    assert {one["s"] for one in events if one["name"] == "Record Window End"} == {"p"}
    assert all(isinstance(one["pid"], int) and isinstance(one.get("tid", 0), int) for one in events)


def test_a_profile_that_begins_before_the_run_moves_the_origin(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "run")
    lines.span("rl.train", 50, 100, "a")
    events, _ = _export(lines.write(), torch=[_kineto(tmp_path / "p.json", 40_000)])
    assert {one["ts"] for one in events if one["name"] == "rl.train"} == {10_000.0}
    assert min(one["ts"] for one in events if "ts" in one and one["ph"] != "M") == 0


def test_a_profile_that_is_cut_off_is_told(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "run")
    lines.span("rl.train", 50, 100, "a")
    profile = _kineto(tmp_path / "p.json", 60_000)
    profile.write_text(profile.read_text()[:-250])
    events, notes = _export(lines.write(), torch=[profile])
    assert any(one["name"] == "aten::mm" for one in events)
    assert any("is cut off" in note for note in notes)


def test_a_profile_of_the_run_that_is_still_written_is_left_out_with_a_note(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "run")
    lines.span("rl.train", 50, 100, "a")
    run = lines.write()
    (run / "now.pt.trace.json").write_text('{"schemaVersion": 1')
    (run / "now.pt.trace.json.gz").write_bytes(b"")
    events, notes = _export(run)
    assert len(_slices(events)) == 1
    assert len([note for note in notes if "holds no trace events" in note]) == 2


def test_a_profile_without_a_clock_is_refused(tmp_path: Path) -> None:
    run = GrpoRun(tmp_path / "data", steps=2).write()
    with pytest.raises(UnusableInput, match="has no baseTimeNanoseconds"):
        export_trace(run, None, ALL, torch=[_kineto(tmp_path / "p.json", 5.0, base=0)])
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(UnusableInput, match="holds no trace events"):
        export_trace(run, None, ALL, torch=[tmp_path / "empty.json"])
    with pytest.raises(UnusableInput, match="no such file"):
        export_trace(run, None, ALL, torch=[tmp_path / "nothing"])


def test_the_export_needs_nothing_that_is_not_installed_with_the_pack() -> None:
    import subprocess

    program = (
        "import sys; sys.modules.update(dict.fromkeys(('bokeh', 'jinja2', 'numpy', 'tqdm', 'markupsafe')));"
        "import otel_rl.export"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
