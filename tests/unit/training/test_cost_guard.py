"""The cost guard on real steps: windows of them, the ladder, and what each rung saves. The clocks are given."""

from __future__ import annotations

import pytest

from otel_rl.core import instrumentor_status, reductions, stderr
from otel_rl.process import process_identity
from otel_rl.semconv import attributes, spans
from otel_rl.telemetry import Scope, content_capture
from otel_rl.training import cost_guard, steps
from otel_rl.training.cost_guard import WARM_UP, WINDOW_SECONDS, WINDOW_STEPS, WINDOWS, CostGuard, CpuSums
from otel_rl.training.trainer_loop import TrainerLoop

_scope = Scope("test")
LIMIT = 0.005
#: Seconds of a step with which a window of the fewest steps is just long enough.
STEP = WINDOW_SECONDS / WINDOW_STEPS
#: Steps after which a rung is taken.
RUNG = WINDOWS * WINDOW_STEPS


class Costs:
    """What the clocks say; a step moves them."""

    def __init__(self):
        self.now = CpuSums(0.0, 0.0, 0.0, 0.0)

    def __call__(self):
        return self.now

    def add(self, wall=0.0, cpu=0.0, program=0.0, own=0.0):
        added = CpuSums(wall, cpu, program, own)
        self.now = CpuSums(*(one + other for one, other in zip(self.now, added, strict=True)))


@pytest.fixture
def costs():
    return Costs()


@pytest.fixture
def ladder(monkeypatch):
    """Every rung has something to save."""
    for rung in reductions.LADDER:
        monkeypatch.setattr(rung, "offered", True)
        monkeypatch.setattr(rung, "on", False)
        if rung.variable:
            monkeypatch.delenv(rung.variable, raising=False)
    monkeypatch.delenv(content_capture.CAPTURE_ENVIRONMENT_VARIABLE, raising=False)
    return reductions.LADDER


@pytest.fixture
def lines(monkeypatch):
    """What is written to standard error."""
    found = []
    monkeypatch.setattr(stderr, "write_line", found.append)
    return found


@pytest.fixture
def status(monkeypatch):
    monkeypatch.setattr(instrumentor_status, "_outcomes", {})
    return instrumentor_status.snapshot


@pytest.fixture
def guarded(recorded, costs, ladder, lines, status):
    """Makes the guard of a process with this limit."""
    guards = []

    def make(limit=LIMIT):
        guard = CostGuard(limit, costs)
        steps.add_opener(guard.step_opened)
        steps.add_contributor(guard.step_closing)
        guards.append(guard)
        return guard

    yield make
    steps.finish()
    for guard in guards:
        steps.remove_opener(guard.step_opened)
        steps.remove_contributor(guard.step_closing)


class Program:
    """Runs steps that cost what the test says."""

    def __init__(self, costs):
        self._costs = costs
        self._iteration = 0

    def runs(self, number, **spent):
        for _ in range(number):
            self._iteration += 1
            steps.begin(self._iteration, _scope)
            self._costs.add(**{"wall": STEP, "cpu": STEP, **spent})
            steps.finish()


@pytest.fixture
def program(costs):
    return Program(costs)


def names():
    return [rung.name for rung in reductions.taken()]


def test_below_the_limit_nothing_is_left_out(guarded, program, lines):
    guarded()
    program.runs(200, program=LIMIT * STEP * 0.4, own=LIMIT * STEP * 0.5)

    assert (names(), lines) == ([], [])


def test_the_first_steps_are_not_judged(guarded, program):
    guarded()
    program.runs(WARM_UP, program=STEP)
    program.runs(3 * RUNG)

    assert names() == []


def test_one_dear_step_in_a_window_of_cheap_ones_is_no_reason(guarded, program):
    guarded()
    program.runs(WARM_UP)
    program.runs(WINDOW_STEPS - 1)
    program.runs(1, own=LIMIT * STEP * (WINDOW_STEPS - 1))

    assert names() == []


def test_above_the_limit_one_rung_is_taken_per_two_windows_until_it_holds(guarded, program, ladder):
    guarded()
    program.runs(WARM_UP)
    program.runs(RUNG - 1, program=STEP * 0.01)
    assert names() == []
    program.runs(1, program=STEP * 0.01)
    assert names() == [ladder[0].name]
    program.runs(RUNG - 1, program=STEP * 0.01)
    assert names() == [ladder[0].name]
    program.runs(1, program=STEP * 0.01)
    assert names() == [rung.name for rung in ladder[:2]]
    program.runs(5 * RUNG, program=STEP * 0.001)
    assert names() == [rung.name for rung in ladder[:2]]


def test_windows_above_the_limit_that_do_not_follow_each_other_are_no_reason(guarded, program):
    guarded()
    program.runs(WARM_UP)
    for _ in range(4):
        program.runs(WINDOW_STEPS, program=STEP * 0.01)
        program.runs(WINDOW_STEPS)

    assert names() == []


def test_many_short_steps_are_judged_together(guarded, program, costs):
    guarded()
    program.runs(WARM_UP)
    short = {"wall": WINDOW_SECONDS / 1000, "cpu": WINDOW_SECONDS / 1000}
    for _ in range(WINDOWS):
        assert names() == []
        program.runs(500, **short, own=WINDOW_SECONDS / 1000)
        assert names() == []
        program.runs(501, **short)
    assert len(names()) == 1


def test_what_was_left_out_stays_left_out(guarded, program, ladder):
    guarded()
    program.runs(WARM_UP + RUNG, program=STEP * 0.02)
    program.runs(20 * RUNG)

    assert names() == [ladder[0].name]


def test_at_the_end_of_the_ladder_the_steps_go_on(guarded, program, ladder, lines):
    guarded()
    program.runs(WARM_UP + (len(ladder) + 3) * RUNG, program=STEP * 0.02)

    assert names() == [rung.name for rung in ladder]
    *taken, last = lines
    assert len(taken) == len(ladder)
    assert f"step {WARM_UP + (len(ladder) + 1) * RUNG}: nothing more is left out; otel-rl took 2.00% of" in last


def test_what_the_user_asks_for_comes_last_and_is_named(guarded, program, ladder, lines, monkeypatch):
    monkeypatch.setenv("OTEL_RL_SLOWEST", "20")
    guarded()
    program.runs(WARM_UP + len(ladder) * RUNG, program=STEP * 0.02)

    assert len(names()) == len(ladder)
    assert [line.partition("recorded: ")[2].partition(";")[0] for line in lines] == [
        *(rung.words for rung in ladder[1:]),
        f"{ladder[0].what} (although OTEL_RL_SLOWEST is set)",
    ]


def test_content_that_the_user_asks_for_is_kept_and_that_is_said_at_the_end_of_the_ladder(
    guarded, program, ladder, lines, monkeypatch
):
    monkeypatch.setenv(content_capture.CAPTURE_ENVIRONMENT_VARIABLE, "SPAN_ONLY")
    guarded()
    program.runs(WARM_UP + (len(ladder) + 1) * RUNG, program=STEP * 0.02)

    assert content_capture.capture_content()
    assert "content stays, as OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is set" in lines[-1]


def test_a_rung_that_saves_nothing_here_is_passed_over(guarded, program, ladder, monkeypatch):
    monkeypatch.setattr(ladder[0], "offered", False)
    guarded()
    program.runs(WARM_UP + RUNG, program=STEP * 0.02)

    assert names() == [ladder[1].name]


def test_without_a_limit_the_cost_is_measured_and_nothing_left_out(guarded, program, recorded):
    guarded(limit=0.0)
    program.runs(WARM_UP + 3 * RUNG, program=STEP)

    assert names() == []
    assert any(attributes.RL_TELEMETRY_CPU_TIME in span.attributes for span in recorded.spans)


@pytest.mark.parametrize(
    ("spent", "is_too_much"),
    [
        pytest.param({"wall": 3.0, "cpu": 0.01, "own": 0.004}, False, id="a program that waits for others"),
        pytest.param({"wall": 3.0, "cpu": 0.01, "program": 0.02}, True, id="and that we delay"),
        pytest.param({"wall": 3.0, "cpu": 90.0, "own": 0.1}, False, id="many cores, our threads beside them"),
        pytest.param({"wall": 3.0, "cpu": 90.0, "program": 0.02}, True, id="many cores that wait for one thread"),
        pytest.param({"wall": 3.0, "cpu": 3.0, "program": 0.01, "own": 0.01}, True, id="one core for both"),
    ],
)
def test_what_counts_is_the_delay_and_the_share_of_what_the_program_takes(spent, is_too_much, guarded, program):
    guarded()
    program.runs(WARM_UP)
    program.runs(RUNG, **spent)

    assert bool(names()) is is_too_much


def test_it_is_said_on_stderr_as_an_event_and_in_the_status(guarded, program, lines, recorded, status, ladder):
    guarded()
    program.runs(WARM_UP + RUNG, program=STEP * 0.02)

    [line] = lines
    last = WARM_UP + RUNG
    assert line.startswith(f"otel-rl: from step {last} on less is recorded: {ladder[0].words}; otel-rl took 2.00% of")
    [event] = recorded.events("rl.telemetry.reduced")
    assert event.attributes["rl.telemetry.reduction"] == ladder[0].name
    assert event.attributes["rl.telemetry.cpu_share"] == pytest.approx(0.02)
    assert event.attributes["rl.loop.iteration"] == last
    outcome = status()["cost_guard"]
    assert outcome["state"] == instrumentor_status.DEGRADED
    assert ladder[0].words in outcome["reason"]


def test_of_many_ranks_only_the_first_says_it_on_stderr(guarded, program, lines, recorded, monkeypatch):
    monkeypatch.setattr(process_identity, "_current", process_identity.ProcessIdentity(id="run", rank=3, world_size=8))
    guarded()
    program.runs(WARM_UP + RUNG, program=STEP * 0.02)

    assert lines == []
    assert recorded.events("rl.telemetry.reduced")


def test_the_span_of_a_step_has_our_time_and_that_of_the_process(guarded, program, recorded):
    guarded()
    program.runs(2, cpu=2.0, program=0.25, own=0.5)

    for step in (span for span in recorded.spans if span.name == spans.RL_RANK_STEP.type):
        assert step.attributes[attributes.RL_TELEMETRY_CPU_TIME] == pytest.approx(0.75)
        assert step.attributes[attributes.RL_LOOP_CPU_TIME] == pytest.approx(2.0)


def test_a_forked_child_records_everything_again_and_judges_its_own_steps(guarded, program):
    guard = guarded()
    program.runs(WARM_UP + RUNG, program=STEP * 0.02)
    guard.forked()
    assert names() == []
    program.runs(WARM_UP, program=STEP * 0.02)
    assert names() == []


def test_the_clocks_of_the_process_give_sums_that_grow():
    before = cost_guard.read()
    sum(range(200_000))
    spent = cost_guard.read().since(before)

    assert spent.wall > 0
    assert spent.cpu > 0
    assert min(spent) >= 0


def test_without_parts_a_step_keeps_its_phases_and_all_durations(guarded, program, recorded, ladder):
    guarded()
    reductions.PARTS.on = True
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    for definition in (spans.RL_SAMPLE, spans.RL_FORWARD, spans.RL_BACKWARD):
        with loop.phase(definition, _scope):
            pass
    loop.finish_step()

    assert {span.name for span in recorded.spans} == {"rl.loop", "rl.rank.step", "rl.sample", "rl.train"}
    durations = {point.attributes["rl.phase"] for point in recorded.metrics()["rl.phase.duration"]}
    assert durations == {"forward", "backward"}


def test_without_parts_one_that_fails_has_its_span(guarded, recorded):
    guarded()
    reductions.PARTS.on = True
    loop = TrainerLoop()
    loop.begin_step(1, _scope)
    with pytest.raises(KeyError), loop.phase(spans.RL_BACKWARD, _scope):
        raise KeyError("mine")
    loop.finish_step()

    assert recorded.span("rl.backward").attributes["error.type"] == "KeyError"
