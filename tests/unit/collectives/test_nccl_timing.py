"""Timing of NCCL is switched on for those who ask, leaves what the user has set, and says why there is none."""

from __future__ import annotations

import logging
import pickle
from types import SimpleNamespace

import pytest

from otel_rl.core import settings
from otel_rl.instrumentors.torch_distributed import nccl_timing
from otel_rl.semconv import attributes as names
from otel_rl.semconv import events
from otel_rl.telemetry import Scope
from tests.support.torch_dumps import dump, entry

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.distributed_c10d")
SCOPE = Scope("torch_distributed")


class Group:
    group_name, group_desc = "0", "default_pg"


MODULE = SimpleNamespace(_world=SimpleNamespace(pg_map={Group(): None}), get_process_group_ranks=lambda _: [0, 1, 2])


@pytest.fixture
def timing(recorded, monkeypatch):
    """The module, with timing asked for and none of PyTorch's variables set."""
    for name in ("TORCH_NCCL_ENABLE_TIMING", "NCCL_ENABLE_TIMING", "TORCH_FR_BUFFER_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_RL_NCCL_TIMING", "on")
    monkeypatch.setattr(nccl_timing, "_times", None)
    monkeypatch.setattr(nccl_timing, "_told", False)
    monkeypatch.setattr(
        torch._C._distributed_c10d, "_dump_nccl_trace", lambda *_: pickle.dumps(dump([])), raising=False
    )
    settings.reset()
    yield nccl_timing
    nccl_timing.stop()
    settings.reset()


def published(recorded):
    return recorded.events(events.TORCH_DISTRIBUTED_COLLECTIVES.name)


def test_timing_is_switched_on(timing):
    environ = {}
    timing.switch_on(environ)

    assert environ == {"TORCH_NCCL_ENABLE_TIMING": "1"}


@pytest.mark.parametrize("name", ["TORCH_NCCL_ENABLE_TIMING", "NCCL_ENABLE_TIMING"])
def test_what_the_user_has_set_stays(timing, name):
    environ = {name: "0"}
    timing.switch_on(environ)

    assert environ == {name: "0"}


def test_a_group_of_nccl_without_timing_says_so_once(timing, recorded, monkeypatch):
    monkeypatch.setenv("OTEL_RL_NCCL_TIMING", "off")
    settings.reset()
    timing.group_made(MODULE, SCOPE)
    timing.group_made(MODULE, SCOPE)

    (event,) = published(recorded)
    assert event.attributes == {names.TORCH_DISTRIBUTED_TIMING: "off"}
    assert event.body is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_NCCL_ENABLE_TIMING", "0"),
        ("NCCL_ENABLE_TIMING", "false"),
        ("TORCH_FR_BUFFER_SIZE", "0"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "0"),
        ("TORCH_NCCL_CUDA_EVENT_CACHE", "0"),
        ("TORCH_NCCL_BLOCKING_WAIT", "1"),
    ],
)
def test_a_variable_that_keeps_the_times_from_being_read_is_named(timing, recorded, monkeypatch, caplog, name, value):
    monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING):
        timing.group_made(MODULE, SCOPE)

    assert f"{name}={value}" in caplog.text
    (event,) = published(recorded)
    assert event.attributes == {names.TORCH_DISTRIBUTED_TIMING: "refused"}


@pytest.mark.parametrize("version", ["2.4.1", "2.7.0+cu126"])
def test_a_pytorch_without_its_cache_of_events_is_not_asked(timing, recorded, monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    timing.group_made(MODULE, SCOPE)

    (event,) = published(recorded)
    assert event.attributes == {names.TORCH_DISTRIBUTED_TIMING: "unavailable"}


def test_what_is_left_is_published_when_the_program_destroys_all_groups(timing, recorded, monkeypatch):
    timing.group_made(MODULE, SCOPE)
    held = [entry(1, duration_ms=2.0)]
    monkeypatch.setattr(torch._C._distributed_c10d, "_dump_nccl_trace", lambda *_: pickle.dumps(dump(held)))
    timing.groups_end(object())
    assert not published(recorded)
    timing.groups_end()

    (event,) = published(recorded)
    assert event.body[names.TORCH_DISTRIBUTED_GROUPS] == ["0\tdefault_pg\t0-2"]


def test_a_forked_child_publishes_nothing_of_its_parent(timing, recorded, monkeypatch):
    timing.group_made(MODULE, SCOPE)
    times = timing._times
    monkeypatch.setattr(
        torch._C._distributed_c10d, "_dump_nccl_trace", lambda *_: pickle.dumps(dump([entry(1, duration_ms=2.0)]))
    )
    # What runs in a forked child.
    timing.stop()
    times.read()

    assert not published(recorded)


def test_a_dump_that_cannot_be_read_stops_no_step(timing, recorded, monkeypatch):
    monkeypatch.setenv("OTEL_RL_RAISE_INTERNAL_ERRORS", "0")
    settings.reset()
    monkeypatch.setattr(torch._C._distributed_c10d, "_dump_nccl_trace", lambda *_: b"torn")
    timing.group_made(MODULE, SCOPE)
    timing._times.read()

    assert not published(recorded)
