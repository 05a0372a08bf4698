"""Both libraries instrumented, and checkpoints that are large enough to be recorded."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import pytest

from otel_rl.instrumentors.safetensors import SafetensorsInstrumentor
from otel_rl.instrumentors.torch_checkpoint import TorchCheckpointInstrumentor
from otel_rl.semconv.attributes import RlCheckpointFormatValues as Format
from otel_rl.semconv.attributes import RlCheckpointOperationValues as Operation
from otel_rl.training import checkpoints, saved_checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterator

torch = pytest.importorskip("torch")

#: Bytes of the tensor that the tests save.
SIZE = 1 << 20


@pytest.fixture
def state():
    return {"weight": torch.arange(SIZE // 4, dtype=torch.float32)}


def _count_from_here(monkeypatch) -> None:
    """Let the sums be higher than any that was exported before: a test of forks may have forgotten some since."""
    base = time.monotonic_ns()
    for operation, file_format in itertools.product(_values(Operation), _values(Format)):
        monkeypatch.setitem(checkpoints._totals, (operation, file_format, 0), [base, base])
    checkpoints._observe()


def _values(names: type) -> list[str]:
    return [value for name, value in vars(names).items() if name.isupper()]


@pytest.fixture
def saves(recorded, monkeypatch) -> Iterator:
    """What is recorded, with all saves of 64 KiB long enough."""
    monkeypatch.setattr(checkpoints, "SHORTEST", 0.0)
    saved_checkpoints._forget()
    instrumentors = (TorchCheckpointInstrumentor(), SafetensorsInstrumentor())
    for instrumentor in instrumentors:
        instrumentor.instrument()
    _count_from_here(monkeypatch)
    recorded.metrics()
    yield recorded
    for instrumentor in instrumentors:
        instrumentor.uninstrument()
