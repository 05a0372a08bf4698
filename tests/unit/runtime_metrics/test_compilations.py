"""Real compilations by ``torch.compile`` on the CPU, forced to happen again, and other versions of PyTorch."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from otel_rl.core import instrumentor_status
from otel_rl.runtime_metrics import compilations as module
from otel_rl.runtime_metrics.compilations import Compilations

torch = pytest.importorskip("torch")


@pytest.fixture
def look(monkeypatch):
    """What has been compiled since the last call."""
    # A model of another test whose forward pass has raised counts as the active one of DDP.
    monkeypatch.setattr(torch.nn.parallel.DistributedDataParallel, "_active_ddp_module", None)
    torch._dynamo.reset()
    watched = Compilations()
    watched.look()
    yield watched.look
    torch._dynamo.reset()


@pytest.fixture
def records(monkeypatch):
    """Stands in for the list of PyTorch."""
    found = []
    stand_in = ModuleType("torch._dynamo.utils")
    stand_in.get_compilation_metrics = lambda: list(found)
    monkeypatch.setitem(sys.modules, module._MODULE, stand_in)
    return found


def test_a_forced_recompilation_has_its_reason_and_the_first_one_none(look):
    @torch.compile(backend="eager", dynamic=False)
    def doubled(x):
        return x * 2

    doubled(torch.ones(3))
    [first] = look()
    doubled(torch.ones(3))
    assert look() == []
    doubled(torch.ones(4))
    [second] = look()

    assert (first.is_recompilation, first.reason) == (False, "")
    assert first.function.startswith("doubled (test_compilations.py:")
    assert first.seconds > 0
    assert second.is_recompilation
    assert "tensor 'x' size mismatch at index 0. expected 3, actual 4" in second.reason


def test_a_text_of_the_program_does_not_come_with_the_reason(look):
    @torch.compile(backend="eager")
    def answered(x, prompt):
        return x * 2 if prompt == "my secret" else x + 1

    answered(torch.ones(3), "my secret")
    answered(torch.ones(3), "another secret")
    again = look()[-1]

    assert again.is_recompilation
    assert "secret" not in again.reason
    assert "prompt" in again.reason
    assert "#" not in again.reason


def test_looking_compiles_and_guards_nothing_more(look):
    from torch._dynamo.utils import counters

    @torch.compile(backend="eager")
    def added(x):
        return x + 1

    added(torch.ones(2))
    look()
    before = {name: dict(values) for name, values in counters.items()}
    for _ in range(5):
        look()
        added(torch.ones(2))
    assert {name: dict(values) for name, values in counters.items()} == before


def test_the_sums_go_on_while_pytorch_forgets_old_records(records):
    watched = Compilations()
    for first in range(0, 200, 50):
        records[:] = [record(number) for number in range(first, first + 64)]
        watched.look()
    records[:] = records[-3:]
    assert watched.look() == []
    assert watched.number == 4 * 64


def record(number, **fields):
    return SimpleNamespace(**{"compile_id": f"{number}/0", "duration_us": 1_000_000, "co_name": "f", **fields})


def test_records_of_an_old_pytorch_tell_what_they_have(records):
    records[:] = [SimpleNamespace(compile_id="2/1", entire_frame_compile_time_s=2.5, co_name="forward")]
    [one] = Compilations().look()
    assert one == ("forward", 2.5, True, "")


def test_backward_graphs_of_an_old_pytorch_are_no_recompilations(records):
    class BwdCompilationMetrics(SimpleNamespace):
        """As PyTorch names it before 2.6."""

    records[:] = [BwdCompilationMetrics(compile_id="0/1", inductor_compile_time_s=0.5)]
    [one] = Compilations().look()
    assert not one.is_recompilation


def test_tuning_while_the_program_runs_is_no_compilation(records):
    records[:] = [record(0, is_runtime=True), record(1, is_runtime=False)]
    watched = Compilations()
    assert len(watched.look()) == 1
    assert watched.look() == []


@pytest.mark.parametrize(
    ("fields", "again"),
    [
        ({"compile_id": "0/0"}, False),
        ({"compile_id": "0/3"}, True),
        ({"compile_id": "[1/2]"}, True),
        ({"compile_id": None}, False),
        ({"compile_id": "0/0", "recompile_reason": "x"}, True),
        ({"compile_id": "0/3", "is_forward": False}, False),
    ],
)
def test_what_counts_as_a_recompilation(records, fields, again):
    records[:] = [record(0, **fields)]
    [one] = Compilations().look()
    assert one.is_recompilation is again


def test_a_pytorch_whose_names_moved_is_told_once_and_no_error(records, monkeypatch):
    monkeypatch.setattr(instrumentor_status, "_outcomes", {})
    del sys.modules[module._MODULE].get_compilation_metrics
    watched = Compilations()
    assert watched.look() == []
    assert watched.look() == []
    outcome = instrumentor_status.snapshot()["torch_compile"]
    assert outcome["state"] == instrumentor_status.DEGRADED
    assert "get_compilation_metrics" in outcome["reason"]


def test_without_a_compiler_nothing_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, module._MODULE, raising=False)
    assert Compilations().look() == []
    assert module._MODULE not in sys.modules
