"""Which calls the watchdog takes for hanging, with a clock of the test and real tools, rollouts and steps."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest
from opentelemetry.context import get_current

import otel_rl
from otel_rl.core import settings
from otel_rl.flight_recorder import copies, files, waiting
from otel_rl.inference.calls import InferenceCall
from otel_rl.inference.engine_calls import EngineCall
from otel_rl.inference.http.calls import Url
from otel_rl.inference.http.service_calls import ServiceCall
from otel_rl.inference.requests import ModelRequest, endpoint_of
from otel_rl.inference.servers import server
from otel_rl.instrumentors.trl.tools import ToolCalls
from otel_rl.ranks.watchdog import call_list, call_places, calls, reports
from otel_rl.telemetry import progress
from otel_rl.telemetry.scope import Scope
from otel_rl.tools import open_tools
from otel_rl.tools.calls import ToolCall
from otel_rl.tools.open_tools import OpenTool

SCOPE = Scope("test")
MINIMUM = 60.0


class Process:
    """A process whose watchdog looks at its calls once a second."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        for module in (progress, call_list):
            monkeypatch.setattr(module, "monotonic", lambda: self.now)
        self.lines, self.held = [], []
        monkeypatch.setattr(reports, "write_line", self.lines.append)
        self.watch = calls.CallWatch(MINIMUM)

    def passes(self, seconds, *, paused=0.0, in_step=False):
        for _ in range(seconds):
            self.now += 1
            self.watch.look(self.now, paused, in_step=in_step)

    def tool(self, name="search", seconds=0.0, *, is_around=False):
        """Begin a tool; with ``seconds`` it ends after them. Further calls are inside of it where it ``is_around``."""
        call = ToolCall(SCOPE, name).start()
        self.held.append(call)
        if not is_around:
            call.leave()
        if seconds:
            self.now += seconds
            call.end()
        return call


@pytest.fixture
def process(recorded, monkeypatch, tmp_path):
    monkeypatch.setattr(copies, "waiting_list", None)
    monkeypatch.setattr(call_list.settings, "current", lambda: settings.load({"OTEL_RL_RING_DIR": str(tmp_path)})[0])
    progress.watch_calls(lambda _: None)
    yield Process(monkeypatch)
    progress.watch_calls(None)
    progress._open_calls.clear()
    progress.ended_calls()


def hangs(recorded):
    return recorded.events("rl.call.hang")


def ends(recorded):
    return [event.attributes["rl.call.ending"] for event in recorded.events("rl.call.hang.end")]


def test_the_first_call_of_a_tool_is_told_at_the_shortest_limit_and_its_end_too(process, recorded):
    with otel_rl.rollout("r-1"):
        call = process.tool("run_sandbox")
        process.passes(59)
        assert hangs(recorded) == []
        process.passes(30)
        (event,) = hangs(recorded)
        assert event.attributes["rl.call.kind"] == "tool"
        assert event.attributes["rl.call.name"] == event.attributes["gen_ai.tool.name"] == "run_sandbox"
        assert event.attributes["rl.rollout.id"] == "r-1"
        assert (event.attributes["rl.hang.duration"], event.attributes["rl.hang.limit"]) == (60.0, 60.0)
        assert event.attributes["rl.call.hanging"] == 1
        assert "rl.call.usual_duration" not in event.attributes
        assert event.trace_id == call.span.get_span_context().trace_id
        call.end()
        process.passes(1)
    (over,) = recorded.events("rl.call.hang.end")
    assert (over.attributes["rl.hang.duration"], over.attributes["rl.call.ending"]) == (89.0, "returned")
    assert [line.partition(": ")[2].partition(": ")[2] for line in process.lines] == [
        f"tool run_sandbox has not returned for 60 s (the first call of it), in rollout r-1{_here(event)}, it may hang",
        "tool run_sandbox returned after 89 s, in rollout r-1",
    ]


def test_a_process_without_steps_bounds_the_lists_that_killed_ones_have_left(process, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST", 0)
    left = tmp_path / f"otel-rl-run-host-pid1-{2**22 + 1}.waits"
    left.write_text("{}")
    os.utime(left, (0, 0))
    with otel_rl.rollout("r-1"):
        process.tool("run_sandbox")
        process.passes(60)
    assert not left.exists()


def test_a_writing_of_the_list_looks_at_the_threads_once(process, monkeypatch):
    looks = []
    monkeypatch.setattr(call_list.call_places, "current_frames", lambda: looks.append(1) or sys._current_frames())
    with otel_rl.rollout("r-1"):
        for _ in range(5):
            process.tool("search")
        process.passes(12)
    assert looks == [1]


def test_where_a_call_is_looked_up_when_it_is_listed_and_when_it_hangs_and_not_for_each_writing(
    process, monkeypatch, tmp_path
):
    found, find = [], call_places.find_place
    monkeypatch.setattr(call_list.call_places, "find_place", lambda begin, *of: found.append(begin) or find(begin, *of))
    with otel_rl.rollout("r-1"):
        first = process.tool("search")
        process.passes(5)
        second = process.tool("search")
        process.passes(15)
        begins = [call.begin for call in progress.open_calls()]
        assert found == begins
        second.end(ValueError())
        process.passes(1)
        assert found == begins
        (listed,) = waiting.read_all(tmp_path.glob("*.waits"), {os.geteuid()})
        assert listed.calls[0].function.endswith("passes")
        found.clear()
        process.passes(60)
        assert set(found) == {begins[0]}
        first.end()


def _here(event):
    """The function in which the call waits, as the event has it: this test's own."""
    values = event.attributes
    return f", in {values['code.function.name']}, line {values['code.line.number']} of {values['code.file.path']}"


def test_the_function_is_that_of_the_task_that_has_begun_the_call(process, recorded):
    async def run_sandbox(over):
        with otel_rl.rollout("r-1"), ToolCall(SCOPE, "run_sandbox"):
            await over.wait()

    async def main():
        over = asyncio.Event()
        others = [asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(run_sandbox(over))]
        for _ in range(3):
            await asyncio.sleep(0)
        process.passes(60)
        over.set()
        await asyncio.gather(*others)

    asyncio.run(main())
    (event,) = hangs(recorded)
    assert event.attributes["code.function.name"].endswith("run_sandbox")
    assert event.attributes["code.file.path"] == __file__


@pytest.fixture
def signed():
    progress.sign_frames(call_places.sign)
    yield
    progress.sign_frames(None)


def test_a_thread_that_has_begun_the_call_and_has_other_work_is_no_place_of_it(process, recorded, signed):
    def begins_a_call():
        with otel_rl.rollout("r-1"):
            process.tool("run_sandbox")

    def unrelated_job(began, over):
        began.set()
        over.wait()

    began, over = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(begins_a_call).result()
        other = pool.submit(unrelated_job, began, over)
        began.wait()
        process.passes(60)
        over.set()
        other.result()
    (event,) = hangs(recorded)
    assert "code.function.name" not in event.attributes


def test_a_thread_without_a_function_of_the_program_when_the_call_began_is_no_place_of_it_later(signed):
    with ThreadPoolExecutor(1) as pool:
        began, over = threading.Event(), threading.Event()

        def unrelated_job():
            began.set()
            over.wait()

        progress.watch_calls(lambda _: None)
        call = OpenTool("run_sandbox", "test")
        pool.submit(progress.call_began, call).result()
        pool.submit(unrelated_job)
        began.wait()
        assert call_places.find_place(call.begin) is None
        over.set()
    progress.watch_calls(None)


@pytest.mark.parametrize("depth", [0, 1, 20, 40, 200])
def test_the_frame_that_a_call_is_known_by_is_the_outermost_of_the_program_at_any_depth(depth):
    def begins_a_call(left):
        return begins_a_call(left - 1) if left else call_places.sign()

    def job(signs):
        # Deep, then at two other depths, as calls of one job are: where its outermost frame was is remembered.
        signs += [begins_a_call(depth), begins_a_call(3), begins_a_call(depth + 1)]
        signs.append(call_places._known_by(sys._getframe()))

    signs = []
    with ThreadPoolExecutor(1) as pool:
        pool.submit(job, signs).result()
    assert len(set(signs)) == 1


def test_the_function_is_that_of_the_thread_that_waits_in_it(process, recorded, signed):
    began, over = threading.Event(), threading.Event()

    def runs_a_sandbox():
        with otel_rl.rollout("r-1"):
            process.tool("run_sandbox")
            began.set()
            over.wait()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(runs_a_sandbox)
        began.wait()
        process.passes(60)
        over.set()
    (event,) = hangs(recorded)
    assert event.attributes["code.function.name"].endswith("runs_a_sandbox")


def test_no_function_is_named_where_greenlets_share_a_thread(process, recorded, signed, monkeypatch):
    monkey = ModuleType("gevent.monkey")
    monkey.is_module_patched = lambda name: name == "threading"
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)
    with otel_rl.rollout("r-1"):
        process.tool("run_sandbox")
        process.passes(60)
    (event,) = hangs(recorded)
    assert "code.function.name" not in event.attributes


def test_a_tool_that_is_meant_to_be_long_is_compared_with_its_own_calls(process, recorded):
    with otel_rl.rollout():
        process.tool("build", seconds=50)
        process.tool("build")
        process.passes(499)
        assert hangs(recorded) == []
        process.passes(2)
    (event,) = hangs(recorded)
    assert (event.attributes["rl.hang.limit"], event.attributes["rl.call.usual_duration"]) == (500.0, 50.0)


def test_the_longest_call_of_a_tool_that_is_mostly_short_is_no_hang(process, recorded):
    with otel_rl.rollout():
        for seconds in (1, 1, 1, 200):
            process.tool(seconds=seconds)
        process.tool()
        process.passes(399)
        assert hangs(recorded) == []


def test_a_call_that_failed_late_says_nothing_of_how_long_one_takes(process, recorded):
    with otel_rl.rollout():
        call = process.tool()
        process.passes(300)
        call.end(TimeoutError())
        process.tool()
        process.passes(61)
    assert len(hangs(recorded)) == 2
    assert ends(recorded) == ["failed"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_of_trl_that_failed_late_says_nothing_likewise(process, recorded, is_async):
    def run_sandbox():
        process.now += 300
        raise TimeoutError

    async def run_sandbox_in_loop():
        run_sandbox()

    with otel_rl.rollout():
        watched = ToolCalls().watch({"run_sandbox": run_sandbox_in_loop if is_async else run_sandbox})["run_sandbox"]
        with pytest.raises(TimeoutError):
            asyncio.run(watched()) if is_async else watched()
        process.tool("run_sandbox")
        process.passes(61)
    assert len(hangs(recorded)) == 1


def test_a_stream_that_was_held_for_long_says_nothing_of_how_long_an_answer_takes(process, recorded):
    with otel_rl.rollout():
        call = _model_call()
        process.now += 9000
        call.finish(ended="closed")
        hanging = _model_call()
        process.passes(601)
        hanging.finish()
    assert len(hangs(recorded)) == 1


def test_a_first_call_is_compared_with_ten_usual_calls_of_other_tools(process, recorded):
    with otel_rl.rollout():
        for _ in range(3):
            process.tool("compile", seconds=30)
        process.tool("link")
        process.passes(299)
        assert hangs(recorded) == []
        process.passes(2)
    assert len(hangs(recorded)) == 1


def test_first_calls_that_turn_out_to_be_long_are_taken_back(process, recorded):
    with otel_rl.rollout():
        first, second = process.tool("build"), process.tool("build")
        process.passes(100)
        (event,) = hangs(recorded)
        assert event.attributes["rl.call.hanging"] == 2
        second.end()
        process.passes(1)
        assert ends(recorded) == ["usual"]
        first.end()


def test_of_calls_of_one_name_that_hang_the_longest_is_told_and_then_the_next_one(process, recorded):
    open_ones = _tools_that_begin_one_after_the_other(process)
    assert [event.attributes["rl.call.hanging"] for event in hangs(recorded)] == [1]
    for number, call in enumerate(open_ones, 1):
        assert len(hangs(recorded)) == number
        call.end(ValueError())
        process.passes(1)
    told = [(event.attributes["rl.rollout.id"], event.attributes["rl.hang.duration"]) for event in hangs(recorded)]
    assert told == [("r-0", 60.0), ("r-1", 81.0), ("r-2", 72.0)]
    assert hangs(recorded)[1].attributes["rl.call.hanging"] == 2
    over = [event.attributes for event in recorded.events("rl.call.hang.end")]
    assert [(one["rl.rollout.id"], one["rl.hang.duration"]) for one in over] == [
        ("r-0", 90.0),
        ("r-1", 81.0),
        ("r-2", 72.0),
    ]


def test_lines_about_many_calls_of_a_name_that_end_one_by_one_have_the_shortest_limit_between_them(process, recorded):
    for call in _tools_that_begin_one_after_the_other(process):
        call.end(ValueError())
        process.passes(1)
    assert len(hangs(recorded)) == len(ends(recorded)) == 3
    first, last = [line.partition(": tool ")[2] for line in process.lines]
    assert first.startswith("search has not returned for 60 s (the first call of it), in rollout r-0, in ")
    assert last == "search failed after 72 s, in rollout r-2"


def _tools_that_begin_one_after_the_other(process):
    open_ones = []
    for number in range(3):
        with otel_rl.rollout(f"r-{number}"):
            open_ones.append(process.tool())
        process.passes(10)
    process.passes(60)
    return open_ones


def test_while_calls_are_open_the_list_says_when_that_was_seen_last_and_is_not_written_anew(process, tmp_path):
    with otel_rl.rollout():
        call = process.tool()
        process.passes(70)
        (path,) = tmp_path.glob("*.waits")
        (before,) = waiting.read_all([path], {os.geteuid()})
        file = path.stat().st_ino
        process.passes(1)
        (after,) = waiting.read_all([path], {os.geteuid()})
        call.end()
    assert (after.written, after.calls, path.stat().st_ino) == (before.written, before.calls, file)
    assert after.seen > before.seen > before.written


def test_a_call_outside_of_rollouts_counts_only_while_a_step_is_open(process, recorded):
    process.tool()
    process.passes(200)
    assert hangs(recorded) == []
    process.passes(1, in_step=True)
    assert len(hangs(recorded)) == 1


def test_a_call_that_hangs_over_several_steps_is_told_once(process, recorded):
    call = process.tool()
    for _ in range(5):
        process.passes(30, in_step=True)
        process.passes(10)
    assert (len(hangs(recorded)), ends(recorded)) == (1, [])
    call.end()
    process.passes(1)
    assert ends(recorded) == ["returned"]


def test_a_tool_that_hung_and_then_begins_a_call_goes_on(process, recorded):
    with otel_rl.rollout():
        tool = process.tool("search", is_around=True)
        process.passes(65)
        call = _model_call()
        process.passes(1)
        assert ends(recorded) == ["went_on"]
        call.finish()
        tool.end()


def test_a_stream_that_hung_and_then_gives_a_chunk_goes_on(process, recorded):
    with otel_rl.rollout():
        call = _model_call()
        call.is_being_read = True
        process.passes(601)
        call._last_chunk = process.now
        process.passes(1)
        assert (len(hangs(recorded)), ends(recorded)) == (1, ["went_on"])
        call.finish()


def test_a_stream_that_hung_and_is_then_left_goes_on(process, recorded):
    with otel_rl.rollout():
        call = _model_call()
        process.passes(601)
        call._last_chunk = process.now
        process.passes(1)
        assert (len(hangs(recorded)), ends(recorded)) == (1, ["went_on"])
        call.finish()


def test_of_nested_calls_the_innermost_is_told(process, recorded):
    with otel_rl.rollout():
        process.tool("agent", is_around=True)
        process.tool("search")
        process.passes(100)
    (event,) = hangs(recorded)
    assert event.attributes["rl.call.name"] == "search"


@pytest.mark.parametrize("answer", ["whole", "in part"])
def test_a_tool_that_hangs_with_an_answer_in_its_hands_is_told(process, recorded, answer):
    with otel_rl.rollout():
        process.tool("agent", is_around=True)
        call = _model_call()
        if answer == "whole":
            call.record_body_read(b"{}")
        else:
            call._last_chunk = process.now
        process.passes(61)
        (event,) = hangs(recorded)
        assert event.attributes["rl.call.name"] == "agent"
        call.finish()


def test_a_tool_whose_calls_inside_go_on_does_not_hang(process, recorded):
    with otel_rl.rollout():
        process.tool("agent", is_around=True)
        for _ in range(10):
            process.tool("search", seconds=20)
            process.passes(20)
        assert hangs(recorded) == []
        process.passes(200)
    (event,) = hangs(recorded)
    assert event.attributes["rl.call.name"] == "agent"


def test_a_model_call_is_told_with_its_server_and_a_first_answer_may_take_ten_minutes(process, recorded):
    with otel_rl.rollout():
        call = _model_call()
        process.passes(599)
        assert hangs(recorded) == []
        process.passes(2)
        (event,) = hangs(recorded)
        assert event.attributes["rl.call.name"] == "chat m"
        assert (event.attributes["server.address"], event.attributes["server.port"]) == ("10.0.0.7", 8000)
        assert event.attributes["gen_ai.request.model"] == "m"
        call.finish()


def test_a_service_is_told_with_the_tool_around_it(process, recorded):
    with otel_rl.rollout("r-1"):
        tool = process.tool("run_sandbox", is_around=True)
        call = ServiceCall(SCOPE, "sandbox", "POST", Url("http", "10.0.0.7", 9000, "/run"))
        process.passes(61)
        call.failed(TimeoutError())
        tool.end()
        process.passes(1)
    (event,) = hangs(recorded)
    values = event.attributes
    told = values["rl.call.kind"], values["rl.service"], values["gen_ai.tool.name"]
    assert told == ("service", "sandbox", "run_sandbox")
    assert (values["server.address"], values["server.port"]) == ("10.0.0.7", 9000)
    assert ends(recorded) == ["failed"]


def test_chunks_of_an_answer_are_signs(process, recorded, monkeypatch):
    with otel_rl.rollout():
        call = _model_call()
        call.is_being_read = True
        for _ in range(3):
            process.passes(500)
            call._last_chunk = process.now
        assert hangs(recorded) == []
        process.passes(601)
        assert len(hangs(recorded)) == 1
        call.finish()


def test_a_stream_that_the_program_holds_and_does_not_read_is_no_hang(process, recorded):
    with otel_rl.rollout():
        call = _model_call()
        call._last_chunk = process.now
        process.passes(2000)
        assert hangs(recorded) == []
        call.is_being_read = True
        process.passes(599)
        assert hangs(recorded) == []
        process.passes(2)
        assert len(hangs(recorded)) == 1
        call.finish()


def _model_call():
    endpoint = endpoint_of("/v1/chat/completions")
    return InferenceCall(SCOPE, ModelRequest(endpoint, server("10.0.0.7", 8000), {"model": "m"}))


def test_a_first_batch_of_an_engine_in_the_process_may_take_as_long_as_it_likes(process, recorded):
    call = EngineCall(SCOPE, "generate_content", "vllm", "m")
    process.passes(4000, in_step=True)
    assert hangs(recorded) == []
    call.finish()


def test_a_batch_after_a_short_one_may_take_as_long_as_it_likes(process, recorded):
    for seconds in (2, 1):
        call = EngineCall(SCOPE, "generate_content", "vllm", "m")
        process.now += seconds
        call.finish()
    call = EngineCall(SCOPE, "generate_content", "vllm", "m")
    process.passes(4000, in_step=True)
    assert hangs(recorded) == []
    call.finish()


def test_a_batch_hangs_beyond_ten_times_the_longest_of_at_least_three(process, recorded):
    for seconds in (2, 2, 30):
        call = EngineCall(SCOPE, "generate_content", "vllm", "m")
        process.now += seconds
        call.finish()
    call = EngineCall(SCOPE, "generate_content", "vllm", "m")
    process.passes(299, in_step=True)
    assert hangs(recorded) == []
    process.passes(2, in_step=True)
    (event,) = hangs(recorded)
    assert event.attributes["rl.hang.limit"] == 300.0
    call.finish()


@pytest.mark.parametrize(
    ("answers", "limit"),
    [((2, 4, 10), 600), ((61, 80, 100), 800), ((2, 2, 300), 900)],
    ids=["least", "usual", "longest"],
)
def test_an_answer_may_take_ten_minutes_ten_usual_ones_and_three_of_the_longest(process, recorded, answers, limit):
    with otel_rl.rollout():
        for seconds in answers:
            call = _model_call()
            process.now += seconds
            call.finish()
        call = _model_call()
        process.passes(limit - 1)
        assert hangs(recorded) == []
        process.passes(2)
        (event,) = hangs(recorded)
        assert event.attributes["rl.hang.limit"] == limit
        call.finish()


def test_a_call_that_the_program_drops_is_over(process, recorded):
    with otel_rl.rollout():
        process.tool()
        process.passes(61)
        process.held.clear()
        gc.collect()
        process.passes(1)
    assert ends(recorded) == ["dropped"]


def test_time_in_which_the_process_was_stopped_does_not_count(process, recorded):
    with otel_rl.rollout():
        process.tool()
        process.passes(30)
        process.now += 1000
        process.passes(1, paused=1000.0)
        process.passes(28)
        assert hangs(recorded) == []
        process.passes(2)
    assert len(hangs(recorded)) == 1


def test_calls_are_unknown_without_a_watch(process):
    progress.watch_calls(None)
    call = process.tool()
    assert progress.open_calls() == []
    call.end()
    assert progress.ended_calls() == []


def test_a_list_of_many_calls_has_those_that_hang_first(process, recorded, tmp_path):
    with otel_rl.rollout():
        waiting_ones = [_model_call() for _ in range(waiting.MOST)]
        process.passes(100)
        process.tool("run_sandbox")
        process.passes(61)
        (listed,) = waiting.read_all(tmp_path.glob("*.waits"), {os.geteuid()})
        for call in waiting_ones:
            call.finish()
    assert (listed.calls[0].name, listed.calls[0].hangs) == ("run_sandbox", True)
    assert (len(listed.calls), listed.more) == (waiting.MOST, 1)


def test_the_list_is_empty_and_newer_than_its_copy_once_all_calls_have_returned(process, tmp_path):
    with otel_rl.rollout("r-1"):
        call = process.tool("run_sandbox")
        process.passes(10)
        (before,) = waiting.read_all(tmp_path.glob("*.waits"), {os.geteuid()})
        call.end()
        process.passes(1)
    (after,) = waiting.read_all(tmp_path.glob("*.waits"), {os.geteuid()})
    (listed,) = before.calls
    assert (listed.kind, listed.name, listed.rollout, listed.hangs) == ("tool", "run_sandbox", "r-1", False)
    assert after.calls == ()
    assert after.written > before.written


def test_no_list_is_written_where_the_ring_is_off(process, monkeypatch, tmp_path):
    monkeypatch.setattr(call_list.settings, "current", lambda: settings.load({"OTEL_RL_RING": "off"})[0])
    with otel_rl.rollout():
        process.tool()
        process.passes(70)
    assert list(tmp_path.glob("*.waits")) == []


def test_a_forked_child_leaves_the_list_of_its_parent(process, monkeypatch, tmp_path):
    path = tmp_path / "otel-rl-run-host-1.waits"
    path.touch()
    monkeypatch.setattr(copies, "waiting_list", (os.getpid() + 1, path))
    copies.Copies().finish(tmp_path, None)
    assert path.exists()
    monkeypatch.setattr(copies, "waiting_list", (os.getpid(), path))
    copies.Copies().finish(tmp_path, None)
    assert not path.exists()


def test_ended_calls_are_not_kept(process):
    process.tool(seconds=1)
    assert progress.open_calls() == []
    assert len(progress._open_calls) == 0


def test_tools_that_each_begin_inside_of_the_one_before_are_not_kept_by_the_last(process):
    context, last, tools = get_current(), None, []
    for _ in range(10):
        tool = OpenTool("step", "test")
        tools.append(weakref.ref(tool))
        context = open_tools.context_with(tool, context)
        if last is not None:
            open_tools.ended(last)
        last = tool
        del tool
    gc.collect()
    assert sum(tool() is not None for tool in tools) == 2
    open_tools.ended(last)


def test_a_call_whose_tool_has_ended_is_a_sign_of_the_tool_around_that(process):
    with otel_rl.rollout():
        around = process.tool("agent", is_around=True)
        inner = process.tool("search", is_around=True)
        call = _model_call()
        inner.end()
        process.passes(50)
        call.finish()
        process.passes(59)
        assert progress.open_calls()[0].last_inside == 1050.0
        around.end()


def test_of_too_many_calls_those_that_the_program_has_dropped_are_forgotten_first(process, monkeypatch):
    monkeypatch.setattr(progress, "_MOST_CALLS", 8)
    for _ in range(7):
        process.tool()
    del process.held[:6]
    gc.collect()
    for _ in range(7):
        process.tool()
    assert len(progress.open_calls()) == 8
    process.tool()
    # All are held: the older half is forgotten.
    assert len(progress.open_calls()) == 5
