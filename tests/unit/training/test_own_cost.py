"""What otel-rl costs the steps, measured on real steps with given clocks, and when the last line names it."""

from __future__ import annotations

import mmap
from types import SimpleNamespace

import pytest

from otel_rl.core import own_cpu
from otel_rl.ending import summary
from otel_rl.semconv import attributes, spans
from otel_rl.telemetry import Scope
from otel_rl.training import own_cost, steps
from otel_rl.training.guessed_loop import GuessedLoop
from otel_rl.training.own_cost import (
    MINIMUM_SECONDS,
    MINIMUM_STEPS,
    WARM_UP_STEPS,
    WARNING_SHARE,
    CpuSums,
    StepCosts,
)

_scope = Scope("test")
#: Seconds of a step with which the fewest steps are just long enough.
STEP = MINIMUM_SECONDS / MINIMUM_STEPS


class Clocks:
    """What the clocks say; a step moves them."""

    def __init__(self):
        self.now = CpuSums(0.0, 0.0, 0.0, 0.0)

    def __call__(self):
        return self.now

    def add(self, wall=0.0, cpu=0.0, program=0.0, own=0.0):
        added = CpuSums(wall, cpu, program, own)
        self.now = CpuSums(*(value + other for value, other in zip(self.now, added, strict=True)))


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def costs(recorded, clocks, monkeypatch):
    """The measurement of this process."""
    costs = StepCosts(clocks)
    monkeypatch.setattr(own_cost, "_costs", costs)
    steps.openers.add(costs.step_opened)
    steps.contributors.add(costs.step_closing)
    yield costs
    steps.finish()
    steps.openers.remove(costs.step_opened)
    steps.contributors.remove(costs.step_closing)


class Program:
    """Runs steps that cost what the test says."""

    def __init__(self, clocks):
        self._clocks = clocks
        self._iteration = 0

    def runs(self, number, **spent):
        for _ in range(number):
            self._iteration += 1
            steps.begin(self._iteration, _scope)
            self._clocks.add(**{"wall": STEP, "cpu": STEP, **spent})
            steps.finish()


@pytest.fixture
def program(costs, clocks):
    return Program(clocks)


def test_a_cost_below_the_threshold_is_not_named(program):
    program.runs(200, program=WARNING_SHARE * STEP * 0.4, own=WARNING_SHARE * STEP * 0.5)
    assert own_cost.excessive_share() is None


def test_a_cost_above_the_threshold_is_the_share_of_all_steps_after_the_warm_up(program):
    program.runs(WARM_UP_STEPS)
    program.runs(MINIMUM_STEPS, program=STEP * 0.05)
    assert own_cost.excessive_share() == pytest.approx(0.05)
    program.runs(MINIMUM_STEPS, program=STEP * 0.01)
    assert own_cost.excessive_share() == pytest.approx(0.03)


def test_the_first_steps_do_not_count(program):
    program.runs(WARM_UP_STEPS, program=STEP)
    program.runs(MINIMUM_STEPS)
    assert own_cost.excessive_share() is None


@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        pytest.param(MINIMUM_STEPS - 1, 2 * STEP, id="too few steps"),
        pytest.param(10 * MINIMUM_STEPS, STEP / 20, id="many steps that are too short"),
    ],
)
def test_few_or_short_steps_give_no_share(number, seconds, program, costs):
    program.runs(WARM_UP_STEPS + number, wall=seconds, cpu=seconds, own=seconds)
    assert costs.share is None
    assert own_cost.excessive_share() is None


@pytest.mark.parametrize(
    ("spent", "is_too_much"),
    [
        pytest.param({"cpu": 0.01, "own": 0.016}, False, id="a program that waits for others"),
        pytest.param({"cpu": 0.01, "program": 0.08}, True, id="and that we delay"),
        pytest.param({"cpu": 90.0, "own": 0.4}, False, id="many cores, our threads beside them"),
        pytest.param({"cpu": 90.0, "program": 0.08}, True, id="many cores that wait for one thread"),
        pytest.param({"cpu": 3.0, "program": 0.04, "own": 0.04}, True, id="one core for both"),
    ],
)
def test_what_counts_is_the_delay_and_the_share_of_what_the_program_takes(spent, is_too_much, program):
    program.runs(WARM_UP_STEPS + MINIMUM_STEPS, wall=3.0, **spent)
    assert (own_cost.excessive_share() is not None) is is_too_much


def test_the_last_line_names_a_high_cost_and_no_setting_where_none_is_known_to_lower_it(program):
    program.runs(WARM_UP_STEPS + MINIMUM_STEPS)
    assert "otel-rl itself" not in summary._remarks()
    program.runs(10 * MINIMUM_STEPS, program=STEP * 0.044)
    assert summary._remarks().endswith("; otel-rl itself took 4.0% of the time from step to step")


@pytest.mark.parametrize(
    ("source", "setting"),
    [
        ("torch_training.optimizer_ended", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=otel_rl_torch_training"),
        ("collectives.device_times", "OTEL_RL_COLLECTIVES=off"),
    ],
)
@pytest.mark.parametrize("share", [0.4, 0.6])
def test_a_setting_is_named_where_most_of_the_cost_was_measured_at_what_it_switches_off(
    share, source, setting, program, costs, monkeypatch
):
    program.runs(WARM_UP_STEPS + 10 * MINIMUM_STEPS, program=STEP * 0.044)
    monkeypatch.setattr(own_cpu, "_source_ns", {})
    monkeypatch.setattr(own_cpu, "_places", {})
    monkeypatch.setattr(own_cpu, "_sources", {source: lambda: share * costs.own_seconds * 1e9})
    own_cpu.nanoseconds()
    line = summary._remarks()
    assert "otel-rl itself took 4" in line
    assert (f"which {setting} would lower" in line) is (share > 0.5)


def test_the_span_of_a_step_has_our_time_and_that_of_the_process(program, recorded):
    program.runs(2, cpu=2.0, program=0.25, own=0.5)

    for step in (span for span in recorded.spans if span.name == spans.RL_RANK_STEP.type):
        assert step.attributes[attributes.RL_TELEMETRY_CPU_TIME] == pytest.approx(0.75)
        assert step.attributes[attributes.RL_LOOP_CPU_TIME] == pytest.approx(2.0)


def test_a_forked_child_measures_its_own_steps(program, costs):
    program.runs(WARM_UP_STEPS + MINIMUM_STEPS, program=STEP)
    costs.forget()
    assert own_cost.excessive_share() is None
    program.runs(WARM_UP_STEPS + MINIMUM_STEPS, program=STEP * 0.001)
    assert costs.share == pytest.approx(0.001)


def test_the_clocks_of_the_process_give_sums_that_grow():
    before = own_cost.read()
    sum(range(200_000))
    spent = own_cost.read().since(before)

    assert spent.wall > 0
    assert spent.cpu > 0
    assert min(spent) >= 0


@pytest.mark.parametrize(("apart", "numbers"), [(0.0, [1, 1, 1]), (STEP * 0.9, [None, None, 3])])
def test_guessed_steps_that_follow_each_other_at_once_are_measured_together(recorded, monkeypatch, apart, numbers):
    clocks = Clocks()
    monkeypatch.setattr(own_cost, "APART", apart)
    monkeypatch.setattr(own_cost, "time", SimpleNamespace(perf_counter=lambda: clocks.now.wall))
    costs, loop = StepCosts(clocks), GuessedLoop()
    for iteration in (1, 2, 3):
        costs.step_opened(loop.begin(iteration, _scope))
        clocks.add(wall=STEP / 3, cpu=0.5, own=0.25)
        costs.step_closing(loop.step)
        loop.finish()
    found = [span.attributes for span in recorded.spans if span.name == spans.RL_RANK_STEP.type]
    assert [values.get(attributes.RL_LOOP_CPU_STEPS) for values in found] == numbers
    assert sum(values.get(attributes.RL_LOOP_CPU_TIME, 0) for values in found) == pytest.approx(1.5)
    assert sum(values.get(attributes.RL_TELEMETRY_CPU_TIME, 0) for values in found) == pytest.approx(0.75)


def test_memory_is_without_pages_of_mapped_files(tmp_path):
    size = 32 << 20
    (tmp_path / "weights").write_bytes(bytes(size))
    with (tmp_path / "weights").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        before = own_cost.read_memory()[attributes.RL_LOOP_MEMORY]
        assert sum(mapped[:: mmap.PAGESIZE]) == 0
        assert own_cost.read_memory()[attributes.RL_LOOP_MEMORY] - before < size / 2
