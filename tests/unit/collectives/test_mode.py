"""When all collectives are counted, and when only those of Python: once all, always all."""

from __future__ import annotations

import gc

import pytest

from otel_rl.collectives.mode import ALL, AUTO, CHEAP_STEPS, COUNTING_SECONDS, LARGEST_SHARE, PYTHON, Mode

#: Seconds of a step in which counting one collective more is just cheap enough.
ENOUGH = COUNTING_SECONDS / LARGEST_SHARE


class Kernels:
    """Stands in for those of PyTorch."""

    def __init__(self, error=None):
        self.installed = False
        self.has_those_of_ddp = False
        self.error = error
        self.attempts = 0

    def _attempt(self):
        self.attempts += 1
        if self.error is not None:
            raise self.error

    def install(self):
        self._attempt()
        self.installed = True

    def install_for_ddp(self):
        self._attempt()
        self.has_those_of_ddp = True


@pytest.fixture
def kernels():
    return Kernels()


@pytest.fixture
def reasons():
    return []


@pytest.fixture
def mode(kernels, reasons):
    return Mode(AUTO, kernels, reasons.append)


class Loop:
    """One sequence of steps."""


_LOOP = Loop()


def run(mode, steps, unseen=1, duration=2 * ENOUGH, loop=_LOOP):
    for _ in range(steps):
        mode.step_closed(unseen, duration, loop)


def test_a_program_whose_collectives_are_pythons_gets_no_kernels(mode, kernels):
    mode.group_made()
    run(mode, 10, unseen=0)

    assert not kernels.installed


def test_the_first_model_that_ddp_wraps_gets_those_that_ddp_needs(mode, kernels):
    mode.model_wrapped()

    assert kernels.has_those_of_ddp
    assert not kernels.installed


def test_a_program_with_ddp_that_has_others_too_gets_all(mode, kernels):
    mode.model_wrapped()
    run(mode, CHEAP_STEPS)

    assert kernels.installed


def test_whoever_asks_for_all_gets_all_where_ddp_wraps_a_model_before_the_group_is_known(kernels, reasons):
    Mode(ALL, kernels, reasons.append).model_wrapped()

    assert kernels.installed


def test_several_steps_with_unseen_collectives_get_them(mode, kernels):
    run(mode, CHEAP_STEPS - 1)
    assert not kernels.installed

    run(mode, 1)
    assert kernels.installed


def test_steps_for_which_they_would_cost_too_much_do_not(mode, kernels):
    run(mode, 10, unseen=100, duration=99 * ENOUGH)

    assert not kernels.installed


def test_a_long_first_step_does_not_decide(mode, kernels):
    run(mode, 1, unseen=100, duration=1000 * ENOUGH)
    run(mode, 10, unseen=100, duration=99 * ENOUGH)

    assert not kernels.installed


def test_a_collective_in_a_step_now_and_then_gets_none(mode, kernels):
    for _ in range(10 * CHEAP_STEPS):
        run(mode, CHEAP_STEPS - 1)
        run(mode, 1, unseen=0)

    assert not kernels.installed


def test_steps_of_which_nothing_is_known_change_nothing(mode, kernels):
    for _ in range(CHEAP_STEPS):
        assert not kernels.installed
        run(mode, 1)
        run(mode, 1, unseen=None)

    assert kernels.installed


def test_another_loop_without_such_collectives_changes_nothing(mode, kernels):
    critic = Loop()
    for _ in range(CHEAP_STEPS):
        assert not kernels.installed
        run(mode, 1)
        run(mode, 1, unseen=0, loop=critic)

    assert kernels.installed


def test_cheap_steps_of_several_loops_are_not_in_a_row(mode, kernels):
    loops = [Loop() for _ in range(10 * CHEAP_STEPS)]
    for loop in loops:
        run(mode, CHEAP_STEPS - 1, loop=loop)

    assert not kernels.installed


def test_loops_that_are_gone_are_forgotten(mode):
    for _ in range(100):
        run(mode, 1, loop=Loop())
    gc.collect()

    assert len(mode._cheap_steps) == 0


def test_what_is_counted_beside_ddp_is_said_rightly_where_the_others_cannot_be(kernels, reasons, caplog):
    mode = Mode(AUTO, kernels, reasons.append)
    mode.model_wrapped()
    kernels.error = AttributeError("redispatch")
    run(mode, CHEAP_STEPS)

    assert reasons == ["other collectives of C++ code cannot be counted (AttributeError: redispatch)"]
    assert "those of Python and DDP are counted" in caplog.text


def test_steps_that_become_longer_get_them_later(mode, kernels):
    run(mode, 10, unseen=100, duration=99 * ENOUGH)
    run(mode, CHEAP_STEPS, unseen=100, duration=101 * ENOUGH)

    assert kernels.installed


@pytest.mark.parametrize("setting", [PYTHON, "off"])
def test_whoever_does_not_want_all_never_gets_them(kernels, reasons, setting):
    mode = Mode(setting, kernels, reasons.append)
    mode.group_made()
    mode.model_wrapped()
    run(mode, 10)

    assert kernels.attempts == 0


def test_all_begins_with_the_group(kernels, reasons):
    mode = Mode(ALL, kernels, reasons.append)
    mode.group_made()

    assert kernels.installed


def test_all_asks_no_cost_where_the_group_was_made_before_us(kernels, reasons):
    mode = Mode(ALL, kernels, reasons.append)
    run(mode, 1, unseen=100, duration=ENOUGH)

    assert kernels.installed


def test_what_cannot_be_counted_is_said_once_and_not_tried_again(reasons):
    kernels = Kernels(AttributeError("redispatch"))
    mode = Mode(AUTO, kernels, reasons.append)
    mode.model_wrapped()
    run(mode, 10)

    assert kernels.attempts == 1
    assert reasons == ["collectives of C++ code cannot be counted (AttributeError: redispatch)"]
