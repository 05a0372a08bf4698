"""A child that is forked inside a block of the producer API leaves the block, and its parent alone records it."""

from __future__ import annotations

import contextlib
import os

import pytest
from opentelemetry import trace

import otel_rl
from otel_rl.telemetry import Scope, deferral, lifecycle
from otel_rl.tools.calls import ToolCall


def in_child(work):
    """What ``work`` returns in a forked child: true or false."""
    child = os.fork()
    if child == 0:
        answer = False
        try:
            lifecycle.run_after_fork_callbacks()
            deferral.release_child()
            answer = bool(work())
        finally:
            os._exit(0 if answer else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def is_nothing_current():
    return not trace.get_current_span().get_span_context().is_valid


BLOCKS = {
    "rollout": otel_rl.rollout,
    "phase": lambda: otel_rl.phase("sample"),
    "step": lambda: otel_rl.step(3),
    "tool": lambda: otel_rl.tool("search"),
    "tool of an instrumentor": lambda: ToolCall(Scope("agents"), "search"),
}


@pytest.mark.parametrize("leaves", ["by its end", "by an exception"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_forked_child_that_leaves_a_block_of_its_parent_records_nothing(recorded, kind, leaves):
    def leave():
        recorded.metrics()
        error = SystemExit(1) if leaves == "by an exception" else None
        block.__exit__(type(error) if error else None, error, None)
        # The loop's step stays current in the child: work of the child still belongs to it.
        left = kind == "step" or is_nothing_current()
        durations = [name for name in recorded.metrics() if name.endswith(".duration")]
        return left and recorded.spans == [] and durations == []

    block = BLOCKS[kind]()
    block.__enter__()
    assert in_child(leave)
    block.__exit__(None, None, None)
    assert recorded.spans
    assert all(span.status.is_unset for span in recorded.spans)


def test_what_a_forked_child_opens_in_a_block_of_its_parent_is_recorded_below_it(recorded):
    def work():
        with otel_rl.tool("search"):
            pass
        (span,) = recorded.spans
        return span.name == "execute_tool search" and span.parent.span_id == outer

    with otel_rl.rollout():
        outer = trace.get_current_span().get_span_context().span_id
        assert in_child(work)
    assert [span.name for span in recorded.spans] == ["rl.rollout"]


def test_a_generator_that_ends_in_a_forked_child_is_the_parents(recorded):
    @otel_rl.rollout()
    def pieces():
        yield 1
        yield 2

    def read_to_the_end():
        return list(generator) == [2] and recorded.spans == [] and is_nothing_current()

    generator = pieces()
    next(generator)
    assert in_child(read_to_the_end)
    with contextlib.closing(generator):
        pass
    assert [span.name for span in recorded.spans] == ["rl.rollout"]
