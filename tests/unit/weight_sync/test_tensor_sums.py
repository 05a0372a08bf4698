"""Sums of tensors take little memory, whatever the shape of the tensor is."""

from __future__ import annotations

import pytest

from otel_rl.weight_sync import tensor_sums
from otel_rl.weight_sync.tensor_sums import sum_of

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("shape", [(4096,), (2, 2048), (1, 4096), (4096, 1), (1, 1, 64, 64)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_no_part_is_larger_than_a_chunk(monkeypatch, shape, is_transposed):
    tensor = torch.randn(shape)
    if is_transposed:
        tensor = tensor.T if tensor.dim() == 2 else tensor.transpose(0, -1)
    whole = int(sum_of(tensor))
    monkeypatch.setattr(tensor_sums, "_CHUNK", 100)

    parts = list(tensor_sums._parts(tensor))
    assert max(part.numel() for part in parts) <= 100
    assert sum(part.numel() for part in parts) == tensor.numel()
    assert int(sum_of(tensor)) == whole
    assert {part.untyped_storage().data_ptr() for part in parts} == {tensor.untyped_storage().data_ptr()}


def test_a_number_has_a_sum():
    assert int(sum_of(torch.tensor(3.0))) == int(sum_of(torch.tensor([3.0])))
