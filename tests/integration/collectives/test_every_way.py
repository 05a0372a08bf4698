"""Each collective is counted exactly once, whoever issued it: real groups of four ranks over gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import compiler

pytest.importorskip("torch.distributed.fsdp", reason="needs torch")
from torch.distributed import fsdp, tensor

if not (hasattr(fsdp, "fully_shard") and hasattr(tensor, "DTensor")):
    pytest.skip("FSDP2 and DTensor have been public since torch 2.6", allow_module_level=True)

SCRIPTS = Path(sys.executable).parent
PROGRAM = Path(__file__).with_name("every_way_program.py")
WORLD, MESH = ("default_pg", 4), ("mesh_tp", 2)
#: What rank 0 issues: operation, group, its size, source, calls.
EXPECTED = {
    "synchronous": [("all_reduce", *WORLD, "python", 1)],
    "asynchronous": [("all_reduce", *WORLD, "python", 1)],
    "peer_to_peer": [("send", *WORLD, "python", 1)],
    "batched": [("send", *WORLD, "python", 1), ("recv", *WORLD, "python", 1)],
    # Gloo gets both in one.
    "coalesced": [("all_reduce", *WORLD, "python", 1)],
    # The sizes, and the objects.
    "object": [("all_gather", *WORLD, "python", 2)],
    "barrier": [("barrier", *WORLD, "python", 1)],
    "functional": [("all_reduce", *WORLD, "functional", 1)],
    "functional_group_of_a_mesh": [("all_gather", *MESH, "functional", 1)],
    "compiled": [("all_reduce", *WORLD, "functional", 1)],
    "dtensor": [("all_gather", *MESH, "functional", 1)],
    "tensor_parallel": [("all_reduce", *MESH, "functional", 1)],
    "data_parallel": [("all_reduce", *WORLD, "reducer", 1)],
    "data_parallel_with_a_hook_in_python": [("all_reduce", *WORLD, "python", 1)],
    "data_parallel_with_a_hook_in_c": [("all_reduce", *WORLD, "reducer", 1)],
    "fully_sharded": [("all_gather", *MESH, "python", 1), ("reduce_scatter", *MESH, "python", 1)],
    "fully_sharded_first_version": [("all_gather", *WORLD, "python", 1), ("reduce_scatter", *WORLD, "python", 1)],
    # Each is known by the name of its dimension.
    "fully_sharded_and_tensor_parallel": [
        ("all_gather", "mesh_dp", 2, "python", 1),
        ("all_reduce", *MESH, "functional", 1),
        ("reduce_scatter", "mesh_dp", 2, "python", 1),
    ],
    "each_dimension_of_a_mesh": [
        ("all_reduce", "mesh_pp", 2, "python", 1),
        ("all_reduce", "mesh_ep", 2, "python", 1),
        ("all_reduce", "mesh_cp", 1, "python", 1),
    ],
    # Its group is the one that the program has made.
    "dimension_of_all_ranks": [("all_reduce", *WORLD, "python", 1)],
}


#: What a compiler has to link; the other ways need none.
LINKED = ("compiled",)
LEFT_OUT = () if compiler.can_link() else LINKED


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    result = tmp_path_factory.mktemp("collectives") / "counted.json"
    command = [SCRIPTS / "torchrun", "--standalone", "--nproc-per-node=4", PROGRAM, result, *LEFT_OUT]
    # A pool of processes that compile costs more than the one function.
    environ = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(result.read_text(encoding="utf-8"))


def test_the_table_names_every_way(counted: dict[str, dict]) -> None:
    assert counted.keys() == EXPECTED.keys() - set(LEFT_OUT)


@pytest.mark.parametrize("way", [pytest.param(way, marks=compiler.LINKS if way in LINKED else ()) for way in EXPECTED])
def test_a_collective_is_counted_once_with_its_group_and_its_source(counted: dict[str, dict], way: str) -> None:
    found = [tuple(one) for one in counted[way]["counted"]]

    assert sorted(found) == sorted(EXPECTED[way])
    # PyTorch numbers them itself, whoever issues them.
    assert counted[way]["issued"] == sum(calls for *_, calls in found)
