"""The methods of ``torch.distributed.ProcessGroup`` that move data, and the operators of PyTorch's dispatcher below.

Every collective issued from Python passes one of the methods, however the caller imported the public function. Every
collective, whoever issued it, passes one of the operators. Variants of one operation (coalesced, single tensor; PyTorch
2.13 renamed some methods and kept both names) are counted as that operation.
"""

from __future__ import annotations

from typing import NamedTuple

from otel_rl.semconv.attributes import TorchDistributedOperationValues as Operation


class Method(NamedTuple):
    """A method, its operation, and the position of the tensors that hold the whole message (None: no data)."""

    name: str
    operation: str
    payload: int | None


METHODS = (
    Method("allreduce", Operation.ALL_REDUCE, 0),
    Method("allreduce_coalesced", Operation.ALL_REDUCE, 0),
    # (output, input): the gathered side is the message.
    Method("allgather", Operation.ALL_GATHER, 0),
    Method("all_gather_single", Operation.ALL_GATHER, 0),
    Method("_allgather_base", Operation.ALL_GATHER, 0),
    Method("allgather_coalesced", Operation.ALL_GATHER, 0),
    Method("all_gather_single_coalesced", Operation.ALL_GATHER, 0),
    Method("allgather_into_tensor_coalesced", Operation.ALL_GATHER, 0),
    # (output, input): the side before the reduction is the message.
    Method("reduce_scatter", Operation.REDUCE_SCATTER, 1),
    Method("reduce_scatter_single", Operation.REDUCE_SCATTER, 1),
    Method("_reduce_scatter_base", Operation.REDUCE_SCATTER, 1),
    Method("reduce_scatter_single_coalesced", Operation.REDUCE_SCATTER, 1),
    Method("reduce_scatter_tensor_coalesced", Operation.REDUCE_SCATTER, 1),
    Method("broadcast", Operation.BROADCAST, 0),
    Method("reduce", Operation.REDUCE, 0),
    # Only one rank has the list: what every rank gives or gets is counted.
    Method("gather", Operation.GATHER, 1),
    Method("scatter", Operation.SCATTER, 0),
    Method("alltoall", Operation.ALL_TO_ALL, 0),
    Method("alltoall_base", Operation.ALL_TO_ALL, 0),
    Method("all_to_all_single", Operation.ALL_TO_ALL, 0),
    Method("send", Operation.SEND, 0),
    Method("recv", Operation.RECV, 0),
    Method("recv_anysource", Operation.RECV, 0),
    Method("barrier", Operation.BARRIER, None),
    Method("monitored_barrier", Operation.BARRIER, None),
)

#: Those that every supported PyTorch has; of the others each version has some.
IN_ALL_VERSIONS = frozenset(
    {
        "allreduce",
        "allreduce_coalesced",
        "allgather",
        "_allgather_base",
        "allgather_coalesced",
        "reduce_scatter",
        "_reduce_scatter_base",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "alltoall",
        "alltoall_base",
        "send",
        "recv",
        "recv_anysource",
        "barrier",
        "monitored_barrier",
    }
)


class Operator(NamedTuple):
    """An operator of the library ``c10d``, its operation, and the argument that holds the whole message."""

    name: str
    operation: str
    payload: str | None


#: The names have not changed from torch 2.4 to 2.13 (``torch/csrc/distributed/c10d/Ops.cpp``).
OPERATORS = (
    Operator("allreduce_", Operation.ALL_REDUCE, "tensors"),
    Operator("allreduce_coalesced_", Operation.ALL_REDUCE, "tensors"),
    Operator("allgather_", Operation.ALL_GATHER, "output_tensors"),
    Operator("_allgather_base_", Operation.ALL_GATHER, "output_tensor"),
    Operator("allgather_coalesced_", Operation.ALL_GATHER, "output_lists"),
    Operator("allgather_into_tensor_coalesced_", Operation.ALL_GATHER, "outputs"),
    Operator("reduce_scatter_", Operation.REDUCE_SCATTER, "input_tensors"),
    Operator("_reduce_scatter_base_", Operation.REDUCE_SCATTER, "input_tensor"),
    Operator("reduce_scatter_tensor_coalesced_", Operation.REDUCE_SCATTER, "inputs"),
    Operator("broadcast_", Operation.BROADCAST, "tensors"),
    Operator("reduce_", Operation.REDUCE, "tensors"),
    Operator("gather_", Operation.GATHER, "input_tensors"),
    Operator("scatter_", Operation.SCATTER, "output_tensors"),
    Operator("alltoall_", Operation.ALL_TO_ALL, "output_tensors"),
    Operator("alltoall_base_", Operation.ALL_TO_ALL, "output"),
    Operator("send", Operation.SEND, "tensors"),
    Operator("recv_", Operation.RECV, "tensors"),
    Operator("recv_any_source_", Operation.RECV, "tensors"),
    Operator("barrier", Operation.BARRIER, None),
    Operator("monitored_barrier_", Operation.BARRIER, None),
)

#: What DDP issues in C++ once its model is built: its reducer sums up gradients and broadcasts the order of buckets;
#: buffers are broadcast before a forward pass (torch 2.13, ``reducer.cpp``; C++ hooks of ``default_comm_hooks.cpp``).
OPERATORS_OF_DDP = frozenset({"allreduce_", "broadcast_"})
