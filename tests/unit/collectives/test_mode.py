"""When all collectives are watched, and when only those of Python: changes come between steps, alike on all ranks."""

from __future__ import annotations

import pytest

from otel_rl.collectives.mode import ALL, AUTO, COST, LONGEST_PERIOD, PYTHON, Mode


class Kernels:
    """Stands in for those of PyTorch: counts what it is told."""

    def __init__(self, error=None):
        self.installed = False
        self.calls = 0
        self.error = error

    def install(self):
        if self.error is not None:
            raise self.error
        self.installed = True

    def remove(self):
        self.installed = False


@pytest.fixture
def kernels():
    return Kernels()


@pytest.fixture
def reasons():
    return []


@pytest.fixture
def mode(kernels, reasons):
    return Mode(AUTO, kernels, reasons.append)


def run(mode, kernels, iteration, calls=0, duration=1.0, unseen=0):
    """One step; returns whether it was watched in full."""
    mode.step_opened(iteration)
    watched = kernels.installed
    kernels.calls += calls if watched else 0
    mode.step_closed(unseen, duration)
    return watched


def test_a_program_whose_collectives_are_pythons_is_never_watched_in_full(mode, kernels):
    mode.group_made()

    assert not any(run(mode, kernels, iteration) for iteration in range(5))


def test_after_a_step_with_unseen_collectives_the_next_one_is_watched(mode, kernels):
    assert not run(mode, kernels, 1, unseen=3)
    assert run(mode, kernels, 2)


def test_the_first_wrapped_model_is_watched_at_once_where_no_step_is_open(mode, kernels):
    mode.model_wrapped()

    assert kernels.installed


def test_a_model_that_is_wrapped_inside_a_step_is_watched_from_the_next_step_on(mode, kernels):
    mode.step_opened(1)
    mode.model_wrapped()
    assert not kernels.installed

    mode.step_closed(unseen=0, duration=1.0)
    assert run(mode, kernels, 2)


def test_nothing_changes_while_another_loop_has_a_step_open(mode, kernels):
    mode.step_opened(1)
    run(mode, kernels, 1, unseen=1)
    mode.step_opened(2)

    assert not kernels.installed


@pytest.mark.parametrize("setting", [PYTHON, "off"])
def test_whoever_does_not_want_all_never_gets_them(kernels, reasons, setting):
    mode = Mode(setting, kernels, reasons.append)
    mode.group_made()
    mode.model_wrapped()

    assert not run(mode, kernels, 1, unseen=5)
    assert not run(mode, kernels, 2)


def test_all_begins_with_the_group_and_never_leaves_a_step_out(kernels, reasons):
    mode = Mode(ALL, kernels, reasons.append)
    mode.group_made()
    assert kernels.installed

    assert all(run(mode, kernels, iteration, calls=10_000, duration=0.001) for iteration in range(8))


def test_steps_are_left_out_where_watching_would_cost_more_than_its_share(mode, kernels):
    mode.model_wrapped()
    # 2.5 ms and 5 ms for the change, of 0.5 ms that a step of 100 ms allows.
    run(mode, kernels, 0, calls=100, duration=0.1)

    assert mode.period == 16
    watched = [iteration for iteration in range(1, 65) if run(mode, kernels, iteration, calls=100, duration=0.1)]
    assert watched == [16, 32, 48, 64]


def test_a_rank_that_leaves_out_more_steps_watches_none_that_the_others_leave_out(reasons):
    watched = []
    for duration in (0.1, 0.03):
        kernels = Kernels()
        mode = Mode(AUTO, kernels, reasons.append)
        mode.model_wrapped()
        watched.append({n for n in range(257) if run(mode, kernels, n, calls=100, duration=duration)})

    assert len(watched[1]) > 1
    assert watched[1] < watched[0]


def test_the_period_has_an_end_and_falls_again_when_steps_get_long(mode, kernels):
    mode.model_wrapped()
    run(mode, kernels, 0, calls=1_000_000, duration=0.001)
    assert mode.period == LONGEST_PERIOD

    run(mode, kernels, LONGEST_PERIOD, calls=10, duration=100 * COST * 10 / 0.005)
    assert mode.period == 1


def test_what_cannot_be_watched_is_said_once_and_not_tried_again(reasons):
    kernels = Kernels(AttributeError("redispatch"))
    mode = Mode(AUTO, kernels, reasons.append)
    mode.model_wrapped()
    kernels.error = None

    assert not run(mode, kernels, 1, unseen=1)
    assert not run(mode, kernels, 2)
    assert reasons == ["collectives of C++ code cannot be seen (AttributeError: redispatch)"]


def test_after_the_end_the_kernels_are_off_and_stay_off(mode, kernels):
    mode.model_wrapped()
    mode.stop()

    assert not kernels.installed
    assert not run(mode, kernels, 1, unseen=1)
    assert not run(mode, kernels, 2)
