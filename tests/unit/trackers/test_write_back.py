"""Figures of steps in the program's own tracker: what is written, when, and what must never happen."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

import otel_rl
from otel_rl.core import instrumentor_status, settings
from otel_rl.health import live
from otel_rl.health.verdict import State
from otel_rl.ranks.stragglers import watch
from otel_rl.ranks.stragglers.comparison import LateTogether, StepComparison
from otel_rl.ranks.stragglers.meetings import Place
from otel_rl.ranks.stragglers.timeline import StepKey
from otel_rl.semconv import attributes
from otel_rl.telemetry import deferral, drops, lifecycle
from otel_rl.trackers.write_back import figures, following, writers
from otel_rl.training import open_trackers, scalars, steps


class Run:
    """A run of Weights & Biases, as far as it is used."""

    def __init__(self):
        self.logged, self.axes, self.settings = [], [], {}
        self.config = SimpleNamespace(update=lambda values, **_: self.settings.update(values))
        self.error = None

    def define_metric(self, name, **options):
        self.axes.append((name, options))

    def log(self, values, **options):
        if self.error is not None:
            raise self.error
        self.logged.append((values, options, scalars.is_calling()))


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch):
    for name, empty in (("_open", {}), ("_inherited", []), ("_catch_up", []), ("_at_first", [])):
        monkeypatch.setattr(open_trackers, name, empty)
    monkeypatch.setattr(open_trackers, "_wanted", frozenset())
    before = instrumentor_status.snapshot()
    yield
    if "write_back" not in before:
        instrumentor_status._outcomes.pop("write_back", None)


@pytest.fixture
def watched(recorded, monkeypatch):
    """Steps that are written to Weights & Biases."""
    made = following.StepWatch(("wandb",))
    open_trackers.follow(("wandb",), made.catch_up, lambda: None)
    monkeypatch.setattr(steps.listeners, "callbacks", [*steps.listeners.callbacks, made.step_recorded])
    return made


def take_steps(*numbers):
    for number in numbers:
        with otel_rl.step(number), otel_rl.phase("train"):
            pass
    deferral.drain_all()


class TestWhen:
    def test_a_step_is_written_beside_the_program_and_on_an_axis_of_its_own(self, watched):
        run = Run()
        open_trackers.note("wandb", run)
        take_steps(1, 2)
        assert run.logged == []
        watched.write()

        assert [values["otel_rl/step"] for values, _, _ in run.logged] == [1, 2]
        assert {"otel_rl/seconds", "otel_rl/phase/train"} <= run.logged[0][0].keys()
        assert run.axes == [
            ("otel_rl/step", {"hidden": True}),
            ("otel_rl/*", {"step_metric": "otel_rl/step"}),
        ]
        assert "otel_rl/run_id" in run.settings

    def test_it_commits_no_row_of_the_program_and_is_not_captured(self, watched):
        run = Run()
        open_trackers.note("wandb", run)
        take_steps(1)
        watched.write()

        [(_, options, is_part_of_a_call)] = run.logged
        assert options == {"commit": False}
        assert is_part_of_a_call
        assert not scalars.is_calling()

    def test_steps_before_the_first_log_call_wait_for_it(self, watched, monkeypatch):
        monkeypatch.setattr(following, "MAXIMUM_WAITING", 2)
        before = drops.snapshot().get(("metrics", "queue_full"), 0)
        take_steps(1, 2, 3)
        watched.write()
        run = Run()
        open_trackers.note("wandb", run)
        watched.write()

        assert [values["otel_rl/step"] for values, _, _ in run.logged] == [2, 3]
        assert drops.snapshot()["metrics", "queue_full"] > before

    def test_what_waits_is_written_before_the_program_closes_its_run_and_nothing_after(self, watched):
        run = Run()
        open_trackers.note("wandb", run)
        take_steps(1)
        open_trackers.closing("wandb", run)
        take_steps(2)
        watched.write()

        assert [values["otel_rl/step"] for values, _, _ in run.logged] == [1]

    def test_of_two_open_runs_the_first_has_the_whole_series_until_it_is_closed(self, watched):
        first, second = Run(), Run()
        for number in (1, 2):
            open_trackers.note("wandb", first)
            open_trackers.note("wandb", second)
            take_steps(number)
            watched.write()
            open_trackers.closing("wandb", Run())
        open_trackers.closing("wandb", first)
        open_trackers.note("wandb", second)
        take_steps(3)
        watched.write()

        assert [values["otel_rl/step"] for values, _, _ in first.logged] == [1, 2]
        assert [values["otel_rl/step"] for values, _, _ in second.logged] == [3]

    @pytest.mark.parametrize(("name", "value"), [("_is_finished", True), ("file_writer", None)])
    def test_a_run_that_has_ended_without_a_word_gives_way(self, watched, name, value):
        first, second = Run(), Run()
        open_trackers.note("wandb", first)
        setattr(first, name, value)
        open_trackers.note("wandb", second)
        assert open_trackers.find("wandb") is second

    def test_a_tracker_that_fails_is_given_up_and_the_program_does_not_notice(self, watched):
        run = Run()
        run.error = OSError("gone")
        open_trackers.note("wandb", run)
        before = drops.snapshot().get(("metrics", "export_failed"), 0)
        take_steps(*range(1, 10))
        watched.write()

        run.error = None
        take_steps(10)
        watched.write()
        assert run.logged == []
        assert drops.snapshot()["metrics", "export_failed"] > before
        assert instrumentor_status.snapshot()["write_back"]["reason"] == "wandb: OSError"

    def test_a_writer_from_before_a_fork_is_not_touched_in_the_child(self, watched):
        run = Run()
        open_trackers.note("wandb", run)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            lifecycle.run_after_fork_callbacks()
            open_trackers.note("wandb", run)
            os.write(writing, b"untouched" if open_trackers.find("wandb") is None else b"touched")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 20) == b"untouched"
        assert open_trackers.find("wandb") is run
        os.close(reading)
        os.close(writing)

    def test_trackers_that_nobody_asked_for_are_not_kept(self, watched):
        open_trackers.note("trackio", Run())
        assert open_trackers.find("trackio") is None


class TestWhat:
    @pytest.fixture
    def step(self, recorded):
        made = steps.Loop().begin(1, figures_scope())
        yield made
        made.loop.finish()

    def test_collectives_are_shares_where_there_were_any(self, step):
        step.rank_span.set_attributes(
            {
                attributes.TORCH_DISTRIBUTED_CALLS: 4,
                attributes.TORCH_DISTRIBUTED_WAIT_TIME: 0.5,
                attributes.TORCH_DISTRIBUTED_HOST_TIME: 1.0,
                attributes.RL_ENGINE_OUTPUT_TOKENS: 12,
            }
        )
        known = figures.of_step(step, 2.0, [])
        assert (known["otel_rl/collective/share"], known["otel_rl/collective/wait_share"]) == (0.5, 0.25)
        assert known["otel_rl/engine/output_tokens"] == 12
        assert not {"otel_rl/loop/iteration", "otel_rl/rank"} & known.keys()

        step.rank_span.set_attribute(attributes.TORCH_DISTRIBUTED_CALLS, 0)
        assert not any("collective" in key for key in figures.of_step(step, 2.0, []))

    def test_tokens_of_rollouts_that_were_left_out_are_not_effective(self, step):
        rows = [
            {
                attributes.RL_ROLLOUT_SECONDS: [1.0, 3.0, None],
                attributes.RL_ROLLOUT_OUTPUT_TOKENS: [10, 20, 30],
                attributes.RL_ROLLOUT_TRAINED: [True, False, None],
            },
            {attributes.RL_ROLLOUT_OUTPUT_TOKENS: [5]},
        ]
        known = figures.of_step(step, 1.0, rows)
        assert known["otel_rl/rollouts"] == 4
        assert known["otel_rl/rollouts/seconds_mean"] == 2.0
        assert known["otel_rl/rollouts/effective_tokens"] == 45

    def test_the_late_rank_and_its_cost(self, step, monkeypatch):
        late = LateTogether(Place("0", "train"), "all_reduce", (3,), 4, 0.5, 0.5, (0.5,), ("reward",))
        compared = StepComparison(StepKey("", 7, 0), 2.0, 0.5, {}, (late,))
        monkeypatch.setattr(watch, "latest", lambda: compared)
        known = figures.of_step(step, 1.0, [])
        assert (known["otel_rl/late_rank"], known["otel_rl/late_rank/lost_seconds"]) == (3, 0.5)
        assert known["otel_rl/late_rank/lost_share"] == 0.25

    def test_verdicts_are_numbers_and_rules_without_data_are_absent(self, step, monkeypatch):
        found = {"slow_steps": State.WARNING, "non_finite": State.HEALTHY, "kl_explosion": State.UNOBSERVED}
        monkeypatch.setattr(live, "states", lambda: found)
        known = figures.of_step(step, 1.0, [])
        assert {key: value for key, value in known.items() if "health" in key} == {
            "otel_rl/health/slow_steps": 1,
            "otel_rl/health/non_finite": 0,
        }


class TestWriters:
    def test_trackio_gets_a_row_at_the_step_that_the_program_has_reached(self):
        run = SimpleNamespace(rows=[], _next_step=7)
        run.log = lambda values, step: run.rows.append((values, step))
        writers.to_trackio(run, 40, {"otel_rl/seconds": 1.0}, is_first=False)
        assert run.rows == [({"otel_rl/seconds": 1.0, "otel_rl/step": 40}, 6)]

    def test_a_closed_writer_is_not_opened_again(self):
        writer = SimpleNamespace(file_writer=None)
        with pytest.raises(ValueError, match="closed"):
            writers.to_tensorboard(writer, 1, {"otel_rl/seconds": 1.0}, is_first=False)


def test_the_variable_takes_several_trackers_and_refuses_others():
    loaded, complaints = settings.load({"OTEL_RL_WRITE_BACK": "wandb, TensorBoard"})
    assert (loaded.write_back, complaints) == (("wandb", "tensorboard"), [])
    loaded, [complaint] = settings.load({"OTEL_RL_WRITE_BACK": "comet"})
    assert loaded.write_back is None
    assert "wandb, mlflow, tensorboard, trackio" in complaint


def figures_scope():
    from otel_rl.telemetry import Scope

    return Scope("write_back_of_a_test")
