"""What the instruments give at an export: once per node, and not twice beside another instrumentor."""

from __future__ import annotations

import pytest

from otel_rl.core import instrumentor_status
from otel_rl.process import process_identity
from otel_rl.runtime_metrics import observed
from otel_rl.semconv import metrics


@pytest.fixture(autouse=True)
def status(monkeypatch):
    monkeypatch.setattr(instrumentor_status, "_outcomes", {})


@pytest.fixture
def become(monkeypatch):
    return lambda **who: monkeypatch.setattr(
        process_identity, "_current", process_identity.ProcessIdentity(id="run", **who)
    )


def given(metric):
    """The values of ``metric`` at an export, as they are registered."""
    callback = {**observed._PROCESS, **observed._NODE}[metric]
    return list(observed._unless_others(callback)())


def test_the_process_tells_its_memory_and_cpu_time():
    [(size, labels)] = given(metrics.PROCESS_MEMORY_USAGE)
    assert (size > 1 << 20, labels) == (True, {})
    assert {labels["cpu.mode"] for _, labels in given(metrics.PROCESS_CPU_TIME)} == {"user", "system"}


@pytest.mark.parametrize("state", [instrumentor_status.ACTIVE, instrumentor_status.SKIPPED])
def test_where_opentelemetrys_own_instrumentor_reports_the_process_ours_does_not(state, become):
    become(leads=True)
    instrumentor_status.report(observed.OTHER, state)
    told = [bool(given(metric)) for metric in (*observed._PROCESS, *observed._NODE)]
    assert told == [state == instrumentor_status.SKIPPED] * len(told)


@pytest.mark.parametrize(
    ("who", "speaks"),
    [
        ({"rank": 0, "local_rank": 0}, True),
        ({"rank": 8, "local_rank": 0}, True),
        ({"rank": 1, "local_rank": 1, "leads": True}, False),
        ({"leads": True}, True),
        ({"leads": False}, False),
    ],
)
def test_one_process_of_a_node_speaks_for_it(who, speaks, become):
    become(**who)
    for metric in observed._NODE:
        assert bool(given(metric)) is speaks


def test_metrics_of_the_compiler_come_with_the_first_compilation(monkeypatch):
    monkeypatch.setattr(observed.step_pauses, "record_recompilations", lambda: None)
    for number in (0, 2):
        monkeypatch.setattr(observed.compilations, "number", number)
        given_now = list(observed._OURS[metrics.RL_COMPILE_COMPILATIONS]())
        assert given_now == ([(2, {})] if number else [])


def test_without_a_control_group_there_are_no_values_of_it(monkeypatch, tmp_path):
    monkeypatch.setattr(observed, "_group", observed.MemoryGroup(tmp_path, tmp_path / "none"))
    for metric in (
        metrics.RL_CGROUP_MEMORY_USAGE,
        metrics.RL_CGROUP_MEMORY_LIMIT,
        metrics.RL_CGROUP_MEMORY_EVENTS,
    ):
        assert list(observed._OURS[metric]()) == []
