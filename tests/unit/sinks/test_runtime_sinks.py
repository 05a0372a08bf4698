"""Sinks of the program: what they get, when, and that one which fails harms nobody."""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

import otel_rl
from otel_rl import sinks
from otel_rl.api import user_messages
from otel_rl.core import guard, instrumentor_status
from otel_rl.distro import configurator
from otel_rl.pipeline import processors
from otel_rl.pipeline.destination import Destination
from otel_rl.pipeline.sink import Sink as Outlet
from otel_rl.process import process_identity
from otel_rl.process.process_identity import ProcessIdentity
from otel_rl.sinks import calls, following
from otel_rl.sinks.calls import SinkThread
from otel_rl.sinks.following import follower
from otel_rl.telemetry import Scope, drops, lifecycle
from otel_rl.training import configuration, scalars
from otel_rl.training.scalars import Source

_scope = Scope("test")
PATIENCE = 60
STEP = sinks.StepEnded(1, None, "given", 0, 1.0, {}, {}, None, None, (), None, True, "0" * 32)


class Noted:
    """Puts what it gets into a queue."""

    def __init__(self):
        self.got = queue.Queue()

    def run_started(self, run):
        self.got.put(run)

    def step_ended(self, step):
        self.got.put(step)

    def run_ended(self, run):
        self.got.put(run)

    def status(self):
        return sinks.SinkStatus("noted", detail="all well")

    def next(self, kind):
        found = self.got.get(timeout=PATIENCE)
        assert isinstance(found, kind), found
        return found


class Raising(Noted):
    """Raises at each step."""

    error = ValueError

    def step_ended(self, step):
        raise self.error("token at https://user:secret@host/")


class Hanging(Noted):
    """Does not return from a step until it is let go."""

    def __init__(self):
        super().__init__()
        self.inside, self.go_on = threading.Event(), threading.Event()

    def step_ended(self, step):
        self.inside.set()
        self.go_on.wait()
        super().step_ended(step)


@pytest.fixture(autouse=True)
def process(recorded, monkeypatch):
    """A leading process that has had no sink."""
    identity = ProcessIdentity(id="run-1", steps_key="run-1/0.0.0")
    monkeypatch.setattr(process_identity, "_current", identity)
    monkeypatch.setattr(process_identity, "settled", lambda: True)
    monkeypatch.setattr(guard, "_logged", set())
    monkeypatch.setattr(guard, "_errors", {})
    monkeypatch.setattr(instrumentor_status, "_outcomes", {})
    user_messages.forget()
    follower.forget()
    drops.reset()
    hanging = []
    yield SimpleNamespace(hanging=hanging)
    for sink in hanging:
        sink.go_on.set()
    follower.thread.finish(0.0)
    follower.forget()
    drops.reset()


@pytest.fixture
def hanging(process):
    found = Hanging()
    process.hanging.append(found)
    return found


def look_at(hanging, monkeypatch):
    """As if the sink had been in its call for long, when it is looked at."""
    assert hanging.inside.wait(PATIENCE)
    monkeypatch.setattr(calls, "HANGS", 1e-6)
    monkeypatch.setattr(follower.thread, "patience", 1e-6)
    lifecycle.run_interval_callbacks()
    follower.thread.patience = PATIENCE


def take_steps(*numbers, loop=None):
    for number in numbers:
        with otel_rl.step(number, loop=loop):
            pass


class Clearing(Noted):
    """Empties what it is given."""

    def step_ended(self, step):
        step.values.clear()
        step.phases.clear()
        super().step_ended(step)


class TestWhatASinkGets:
    def test_what_one_sink_changes_in_a_step_is_no_other_s(self):
        clearing, noted = Clearing(), Noted()
        sinks.add(clearing, "first")
        sinks.add(noted, "second")
        with otel_rl.step(1), otel_rl.phase("train"):
            pass
        clearing.next(sinks.RunStarted)
        noted.next(sinks.RunStarted)
        assert clearing.next(sinks.StepEnded).phases == {}
        assert "train" in noted.next(sinks.StepEnded).phases

    def test_the_run_comes_first_then_each_step_then_the_end(self, monkeypatch):
        monkeypatch.setattr(configuration, "_all", configuration._Configurations())
        configuration.record_configuration("trl", {"learning_rate": 0.5, "api_key": "sk-0123456789abcdef0123"})
        noted = Noted()
        assert sinks.add(noted, "mine") == "mine"
        take_steps(1, 2)
        follower.finish(None)

        started = noted.next(sinks.RunStarted)
        assert (started.run_id, started.attempt, started.trace_id) == ("run-1", "0.0.0", sinks.trace_id())
        assert started.parameters["trl.learning_rate"] == 0.5
        assert "sk-0123456789abcdef0123" not in str(started.parameters)
        assert [noted.next(sinks.StepEnded).iteration for _ in range(2)] == [1, 2]
        ended = noted.next(sinks.RunEnded)
        assert (ended.run_id, ended.status, ended.steps) == ("run-1", "completed", 2)

    def test_a_step_has_its_times_phases_values_rewards_events_and_trace(self):
        noted = Noted()
        sinks.add(noted)
        with otel_rl.step(7, loop="policy"):
            trace = otel_rl.trace_id()
            with otel_rl.phase("train"):
                scalars.sink.log(_scope, Source.TRAINER, 7, {"loss": 0.5, "note": "a text"})
            otel_rl.metric("buffer/size", 3)
            for score in (0.0, 1.0):
                with otel_rl.rollout():
                    otel_rl.reward("correct", score)
            otel_rl.event("my_team.reset", {"n": 1}, {"why": "full"})
        noted.next(sinks.RunStarted)
        step = noted.next(sinks.StepEnded)

        assert (step.iteration, step.loop, step.source, step.trace_id) == (7, "policy", "given", trace)
        assert step.seconds >= step.phases["train"] > 0 == step.phases["data_wait"]
        assert (step.values["loss"], step.values["buffer/size"], step.values["rewards/correct/mean"]) == (0.5, 3, 0.5)
        assert "note" not in step.values
        assert (step.reward, step.mean_reward, step.error, step.completed) == (0.5, 0.5, None, True)
        [event] = step.events
        assert (event.name, event.body, event.attributes) == ("my_team.reset", {"n": 1}, {"why": "full"})
        json.dumps(dataclasses.asdict(step))

    def test_values_and_events_are_those_of_the_step_and_the_mean_reward_is_that_so_far(self):
        noted = Noted()
        sinks.add(noted)
        for number in (1, 2, 3):
            with otel_rl.step(number):
                otel_rl.metric("reward", float(number))
                if number == 1:
                    otel_rl.event("only.first")
        noted.next(sinks.RunStarted)
        seen = [noted.next(sinks.StepEnded) for _ in range(3)]
        assert [(step.reward, step.mean_reward, len(step.events)) for step in seen] == [
            (1.0, 1.0, 1),
            (2.0, 1.5, 0),
            (3.0, 2.0, 0),
        ]

    def test_a_step_that_fails_says_of_what(self):
        noted = Noted()
        sinks.add(noted)
        with pytest.raises(KeyError), otel_rl.step(1):
            raise KeyError
        noted.next(sinks.RunStarted)
        assert noted.next(sinks.StepEnded).error == "KeyError"

    def test_of_many_events_of_a_step_the_first_are_kept_and_the_rest_counted(self, monkeypatch):
        monkeypatch.setattr(following, "MAXIMUM_EVENTS", 2)
        noted = Noted()
        sinks.add(noted)
        with otel_rl.step(1):
            for number in range(5):
                otel_rl.event("many", {"n": number})
        noted.next(sinks.RunStarted)
        assert [event.body["n"] for event in noted.next(sinks.StepEnded).events] == [0, 1]
        assert drops.snapshot()["steps", "event_limit"] == 3

    def test_one_that_is_added_later_gets_the_run_at_once_and_the_steps_from_then_on(self):
        take_steps(1)
        noted = Noted()
        sinks.add(noted)
        noted.next(sinks.RunStarted)
        take_steps(2)
        assert noted.next(sinks.StepEnded).iteration == 2

    def test_a_process_that_does_not_lead_hands_out_nothing_and_counts_no_loss(self, monkeypatch):
        noted = Noted()
        sinks.add(noted)
        monkeypatch.setattr(process_identity, "_current", ProcessIdentity(id="run-1", rank=1, leads=False))
        take_steps(1)
        assert follower.finish(None) == 0.0
        assert noted.got.empty()
        assert ("steps", "sink_ended") not in drops.snapshot()

    def test_steps_wait_until_it_is_known_which_process_leads(self, monkeypatch):
        is_settled = []
        monkeypatch.setattr(process_identity, "settled", lambda: bool(is_settled))
        noted = Noted()
        sinks.add(noted)
        take_steps(1)
        assert noted.got.empty()
        is_settled.append(True)
        lifecycle.run_interval_callbacks()
        noted.next(sinks.RunStarted)
        assert noted.next(sinks.StepEnded).iteration == 1


class TestIsolation:
    @pytest.mark.parametrize("error", [ValueError, SystemExit])
    def test_one_that_raises_is_named_once_counted_and_unavailable_and_the_others_get_all(self, error, caplog):
        raising, noted = Raising(), Noted()
        raising.error = error
        sinks.add(raising, "bad")
        sinks.add(noted, "good")
        take_steps(1, 2, 3)
        follower.finish(None)

        noted.next(sinks.RunStarted)
        assert [noted.next(sinks.StepEnded).iteration for _ in range(3)] == [1, 2, 3]
        states = {state["name"]: state for state in sinks.status()["sinks"]}
        assert (states["bad"]["failed"], states["good"]["failed"]) == (3, 0)
        assert guard.error_counts() == {"program.sinks": 3}
        (line,) = [line for line in caplog.messages if "error of the sink" in line]
        assert "secret" not in line
        assert instrumentor_status.snapshot()["sink bad"]["state"] == instrumentor_status.DEGRADED
        assert "secret" not in str(sinks.status())

    def test_while_one_hangs_a_successor_calls_the_others_and_its_state_says_since_when(self, hanging, monkeypatch):
        noted = Noted()
        sinks.add(hanging, "stuck")
        sinks.add(noted, "fine")
        take_steps(1)
        look_at(hanging, monkeypatch)
        noted.next(sinks.RunStarted)
        assert noted.next(sinks.StepEnded).iteration == 1
        take_steps(2)
        assert noted.next(sinks.StepEnded).iteration == 2

        [stuck, _] = sinks.status()["sinks"]
        assert (stuck["available"], stuck["queued"]) == (False, 1)
        assert stuck["unavailable_since"] > 0
        assert "step_ended has not returned" in instrumentor_status.snapshot()["sink stuck"]["reason"]

    def test_one_that_returns_after_all_gets_what_has_waited(self, hanging, monkeypatch):
        sinks.add(hanging)
        take_steps(1, 2)
        look_at(hanging, monkeypatch)
        hanging.go_on.set()
        hanging.next(sinks.RunStarted)
        assert [hanging.next(sinks.StepEnded).iteration for _ in range(2)] == [1, 2]

    def test_of_more_steps_than_can_wait_the_oldest_are_dropped_and_counted(self, hanging, monkeypatch):
        monkeypatch.setattr(calls, "MAXIMUM_WAITING", 2)
        sinks.add(hanging)
        take_steps(1)
        assert hanging.inside.wait(PATIENCE)
        take_steps(2, 3, 4)
        hanging.go_on.set()
        hanging.next(sinks.RunStarted)
        assert [hanging.next(sinks.StepEnded).iteration for _ in range(3)] == [1, 3, 4]
        assert drops.snapshot()["steps", "sink_full"] == 1

    def test_at_the_end_what_a_hanging_one_has_not_got_is_counted_and_the_others_get_the_end(
        self, hanging, monkeypatch
    ):
        monkeypatch.setattr(calls, "HANGS_AT_END", 0.01)
        noted = Noted()
        sinks.add(hanging, "stuck")
        sinks.add(noted, "fine")
        take_steps(1)
        assert hanging.inside.wait(PATIENCE)
        follower.finish(None)
        noted.next(sinks.RunStarted)
        noted.next(sinks.StepEnded)
        noted.next(sinks.RunEnded)
        # The end of the run.
        assert drops.snapshot()["steps", "sink_ended"] == 1
        assert "has not returned" in instrumentor_status.snapshot()["sink stuck"]["reason"]

    def test_a_thread_begins_with_the_first_sink_and_ends_with_the_run(self, monkeypatch):
        started = []
        monkeypatch.setattr(calls, "start_new_thread", lambda *given: started.append(given))
        follower.follow()
        take_steps(1)
        assert started == []
        sinks.add(Noted())
        take_steps(2)
        assert len(started) == 1

    def test_where_the_system_refuses_a_thread_nothing_fails(self, monkeypatch):
        def refuse(*_):
            raise RuntimeError

        monkeypatch.setattr(calls, "start_new_thread", refuse)
        noted = Noted()
        sinks.add(noted)
        take_steps(1)
        assert noted.got.empty()
        monkeypatch.undo()

    def test_a_forked_child_has_no_sinks(self):
        noted = Noted()
        sinks.add(noted)
        take_steps(1)
        noted.next(sinks.RunStarted)
        child = os.fork()
        if child == 0:
            lifecycle.run_after_fork_callbacks()
            os._exit(0 if sinks.status()["sinks"] == [] and not follower.thread._is_running else 1)
        assert os.waitpid(child, 0)[1] == 0
        take_steps(2)
        assert [noted.next(sinks.StepEnded).iteration for _ in range(2)] == [1, 2]


class TestNames:
    def test_without_a_name_it_has_that_of_its_class(self):
        noted = Noted()
        assert sinks.add(noted) == "Noted"
        assert sinks.get("Noted") is noted
        assert sinks.remove("Noted") is noted
        assert sinks.get("Noted") is None

    def test_one_that_is_removed_gets_nothing_more(self):
        removed, kept = Noted(), Noted()
        sinks.add(removed, "one")
        sinks.add(kept, "two")
        take_steps(1)
        removed.next(sinks.RunStarted)
        removed.next(sinks.StepEnded)
        sinks.remove("one")
        take_steps(2)
        kept.next(sinks.RunStarted)
        assert [kept.next(sinks.StepEnded).iteration for _ in range(2)] == [1, 2]
        assert removed.got.empty()

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            (SimpleNamespace(run_started=print, step_ended=print), "it lacks run_ended, status"),
            (SimpleNamespace(run_started=1, step_ended=print, run_ended=print, status=print), "it lacks run_started"),
            (Noted, "it is a class; give an object of it"),
        ],
    )
    def test_what_is_no_sink_is_an_error(self, given, problem):
        with pytest.raises(TypeError, match=problem):
            sinks.add(given)

    def test_a_taken_name_and_one_that_does_not_exist_are_lines_and_no_errors(self, capsys):
        sinks.add(Noted(), "mine")
        assert sinks.add(Noted(), "mine") is None
        assert sinks.remove("other") is None
        assert sinks.get("other") is None
        assert capsys.readouterr().err.splitlines() == [
            'otel-rl: sinks.add: a sink has the name "mine" already, and this one gets nothing: remove one first',
            'otel-rl: sinks.remove: there is no sink "other"; there are: mine',
        ]

    def test_there_are_at_most_sixteen(self, capsys):
        added = [sinks.add(Noted(), f"noted {number}") for number in range(17)]
        assert (added[15], added[16]) == ("noted 15", None)
        assert "there are 16 sinks already" in capsys.readouterr().err


class TestTraces:
    def test_the_trace_of_a_step_is_known_while_it_is_open_and_afterwards(self):
        seen = {}
        for number in (3, 4):
            with otel_rl.step(number, loop="traced"):
                seen[number] = otel_rl.trace_id()
                assert sinks.trace_id(step=number) == seen[number]
                assert sinks.trace_id("run-1", 3) == seen[3]

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"step": 99}, "step 99 has not begun"),
            ({"step": "many"}, "step many has not begun"),
            ({"run": "other"}, 'run "other" is not that of this process, "run-1"'),
        ],
    )
    def test_what_is_not_known_is_a_line(self, given, problem, capsys):
        with otel_rl.step(1, loop="of lines"):
            assert sinks.trace_id(**given) is None
        assert problem in capsys.readouterr().err

    def test_before_a_run_exists_there_is_none(self, monkeypatch, capsys):
        monkeypatch.setattr(process_identity, "_current", ProcessIdentity())
        assert sinks.trace_id() is None
        assert "there is no run yet" in capsys.readouterr().err


class TestStatus:
    def test_it_has_the_exporters_and_the_span_processors_and_is_json(self, monkeypatch):
        outlet = Outlet("traces", Destination("otlp", "http://host:4318"), lambda: None)
        outlet.delivered, outlet.kept, outlet.losses, outlet.failing = 5, 2, {"rejected": 1}, True
        outlet.reason = "connection refused"
        provider = SimpleNamespace(_active_span_processor=processors.IsolatedSpanProcessors())
        provider._active_span_processor.known[int] = processors.ForeignProcessor(int)
        part = SimpleNamespace(sink=outlet, left=7, refused=3)
        telemetry = SimpleNamespace(parts=[part], tracer_provider=provider)
        monkeypatch.setattr(configurator, "_telemetry", telemetry)

        state = json.loads(json.dumps(sinks.status()))
        assert state["exporters"] == [
            {
                "signal": "traces",
                "destination": "http://host:4318",
                "enabled": True,
                "available": False,
                "last_error": "connection refused",
                "queued": 7,
                "delivered": 5,
                "dropped": 4,
                "spooled": 2,
            }
        ]
        assert state["span_processors"] == [{"name": "builtins.int", "failed": 0, "slow": 0, "trouble": ""}]

    def test_what_a_sink_reports_of_itself_is_asked_after_its_calls_and_not_by_the_caller(self):
        noted = Noted()
        sinks.add(noted, "mine")
        assert sinks.status()["sinks"][0]["detail"] == ""
        take_steps(1)
        follower.finish(None)
        [state] = sinks.status()["sinks"]
        assert (state["detail"], state["available"], state["delivered"], state["queued"]) == ("all well", True, 3, 0)


def test_without_telemetry_a_sink_is_taken_and_gets_nothing():
    program = (
        "import otel_rl.sinks, types\n"
        "sink = types.SimpleNamespace(run_started=print, step_ended=print, run_ended=print, status=print)\n"
        "assert otel_rl.sinks.add(sink, 'mine') == 'mine'\n"
        "with otel_rl.step(1): pass\n"
        "assert otel_rl.sinks.trace_id() is None and otel_rl.sinks.remove('mine') is sink\n"
        "assert otel_rl.sinks.status()['exporters'] == []\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_sink_that_is_always_behind_gives_way_after_its_turn(monkeypatch):
    now = count()
    monkeypatch.setattr(calls, "time", SimpleNamespace(monotonic=lambda: next(now) / 10, time=lambda: 0.0))
    served, thread = [], SinkThread(lambda: None, lambda: True)
    for name in "ab":
        sink = Noted()
        sink.step_ended = partial(lambda name, step: served.append((name, step)), name)
        waiting = thread.queues[name] = calls.SinkQueue(name, sink)
        waiting.has_started = True
        for _ in range(3):
            waiting.put(STEP)
    while thread._serve(thread._number):
        pass
    assert served == [(name, STEP) for name in "ababab"]
