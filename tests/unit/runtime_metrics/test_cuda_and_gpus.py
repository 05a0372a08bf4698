"""CUDA's allocator and NVML by stand-ins: not run on a GPU."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from otel_rl.core import instrumentor_status
from otel_rl.runtime_metrics import cuda, gpus
from otel_rl.runtime_metrics.gpus import Gpus


class Cuda:
    """Stands in for ``torch.cuda`` with two devices, one of them unused."""

    initialised = True

    def is_initialized(self):
        return self.initialised

    def device_count(self):
        return 2

    def memory_stats(self, device):
        return {"allocated_bytes.all.current": 10, "reserved_bytes.all.peak": 30, "num_ooms": 1} if device == 1 else {}

    def host_memory_stats(self):
        return {"allocated_bytes.current": 4096}


@pytest.fixture
def torch_cuda(monkeypatch):
    found = Cuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=found))
    return found


def test_devices_that_pytorch_uses_are_told(torch_cuda):
    [(number, found)] = cuda.devices()
    assert (number, found[cuda.OUT_OF_MEMORY]) == (1, 1)
    assert cuda.pinned() == 4096


def test_a_program_that_has_not_begun_with_cuda_is_asked_nothing_else(torch_cuda):
    torch_cuda.initialised = False
    assert list(cuda.devices()) == []
    assert cuda.pinned() is None


def test_a_pytorch_that_does_not_tell_pinned_memory(torch_cuda, monkeypatch):
    monkeypatch.delattr(Cuda, "host_memory_stats")
    assert cuda.pinned() is None


def test_without_pytorch_there_is_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert list(cuda.devices()) == []


class NVMLError(Exception):
    """As NVML raises it."""


@pytest.fixture
def nvml(monkeypatch, tmp_path):
    """Stands in for ``pynvml`` and its driver with two devices, of which the second knows no power."""
    library = ModuleType("pynvml")

    def power(handle):
        if handle == 1:
            raise NVMLError("not supported")
        return 412_500

    library.NVML_TEMPERATURE_GPU = 0
    library.nvmlInit = lambda: None
    library.nvmlDeviceGetCount = lambda: 2
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=50 + handle)
    library.nvmlDeviceGetMemoryInfo = lambda _: SimpleNamespace(used=7, total=9)
    library.nvmlDeviceGetPowerUsage = power
    library.nvmlDeviceGetTemperature = lambda _, __: 61
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(gpus, "find_spec", lambda _: True)
    monkeypatch.setattr(instrumentor_status, "_outcomes", {})
    driver = tmp_path / "nvidiactl"
    driver.touch()
    return SimpleNamespace(library=library, driver=driver)


def test_each_device_answers_what_it_knows(nvml):
    found = Gpus(nvml.driver)
    assert list(found.ask("utilization")) == [("0", 0.5), ("1", 0.51)]
    assert list(found.ask("power")) == [("0", 412.5)]
    assert [list(found.ask(question)) for question in ("used", "memory", "temperature")] == [
        [("0", 7), ("1", 7)],
        [("0", 9), ("1", 9)],
        [("0", 61), ("1", 61)],
    ]


def test_without_a_driver_the_library_is_not_imported(nvml, monkeypatch):
    monkeypatch.delitem(sys.modules, "pynvml")
    nvml.driver.unlink()
    assert list(Gpus(nvml.driver).ask("used")) == []
    assert instrumentor_status.snapshot() == {}


def test_a_driver_that_fails_is_asked_once_and_told_in_the_status(nvml):
    calls = []

    def fail():
        calls.append(1)
        raise NVMLError("Driver/library version mismatch")

    nvml.library.nvmlInit = fail
    found = Gpus(nvml.driver)
    assert [list(found.ask("used")) for _ in range(3)] == [[], [], []]
    assert len(calls) == 1
    assert "version mismatch" in instrumentor_status.snapshot()["nvml"]["reason"]
