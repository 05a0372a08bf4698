"""Calls of ``joblib.Parallel`` go on in the rollout in which it was called, and keep none."""

from __future__ import annotations

import contextlib
import gc
import time
import weakref

import pytest
from opentelemetry import trace
from opentelemetry.context import attach, detach, set_value

import otel_rl
from otel_rl.api import continuation

joblib = pytest.importorskip("joblib", reason="the environments beside the latest packages have none")


def _trace_id():
    return trace.get_current_span().get_span_context().trace_id


@pytest.fixture(autouse=True)
def installed(recorded):
    yield
    continuation.restore()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("returned", ["list", "generator"])
def test_a_joblib_pool_that_is_called_again_and_again_keeps_no_rollout(workers, returned):
    class Value:
        pass

    def fails(number):
        raise ValueError(number)

    pool = joblib.Parallel(n_jobs=workers, prefer="threads", batch_size=1, return_as=returned)
    kept = []
    for work in (abs, fails):
        value = Value()
        kept.append(weakref.ref(value))
        with otel_rl.rollout(), contextlib.suppress(ValueError):
            token = attach(set_value("value", value))
            try:
                assert len(list(pool(joblib.delayed(work)(number) for number in range(8)))) == 8
            finally:
                detach(token)
        del value, token
    # Where a call fails, other threads of the pool are still at theirs.
    deadline = time.monotonic() + 60
    while any(reference() is not None for reference in kept):
        assert time.monotonic() < deadline
        time.sleep(0.01)
        gc.collect()


def test_the_calls_of_a_joblib_pool_go_on_in_the_context_of_its_caller():
    pool = joblib.Parallel(n_jobs=2, prefer="threads", batch_size=1, return_as="generator")
    for _ in range(2):
        with otel_rl.rollout():
            wanted, results = _trace_id(), pool(joblib.delayed(_trace_id)() for _ in range(20))
        assert list(results) == [wanted] * 20
