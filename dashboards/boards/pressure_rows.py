"""Row of the ranks board on memory and pauses: what a rank is short of, and what stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.lib import links, panels
from dashboards.lib.layout import Cell, Row
from dashboards.lib.names import shown
from dashboards.lib.promql import CHOSEN_RANKS, Match, latest, rate
from dashboards.lib.queries import PromQuery
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import SystemMemoryStateValues

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANKS = (CHOSEN_RANKS,)
_RANK = attributes.RL_RANK
_OF_RANK = f"rank {shown(_RANK)}"
_OF_NODE = f"node of rank {shown(_RANK)}"
_NO_GPU = "no GPU, or no nvidia-ml-py beside the program"


def _panel(title: str, description: str, queries: Sequence[PromQuery], unit: str) -> Cell:
    return Cell(
        panels.timeseries(title, description, queries, unit=unit, minimum=0, links=links.RANK_LINKS),
        width=6,
    )


PRESSURE = Row(
    "Memory and pauses",
    (
        _panel(
            "Memory of the process, by rank",
            "Physical memory of each rank. A line that rises from step to step is a leak: look at what is kept over "
            "steps. One rank above the others has other data or another role.",
            [PromQuery(latest(metrics.PROCESS_MEMORY_USAGE, _RANK, where=_RANKS), legend=_OF_RANK)],
            "bytes",
        ),
        _panel(
            "Memory of the control group, of its limit",
            "Share of the memory limit that the control groups use, the file cache included. Near 1 the kernel "
            "reclaims, then kills. Raise the limit, or lower workers and batches.",
            [
                PromQuery(
                    f"{latest(metrics.RL_CGROUP_MEMORY_USAGE, _RANK, where=_RANKS)}"
                    f" / {latest(metrics.RL_CGROUP_MEMORY_LIMIT, _RANK, where=_RANKS)}",
                    legend=_OF_RANK,
                    empty_when="no control group with a memory limit",
                )
            ],
            "percentunit",
        ),
        _panel(
            "Memory events of the control group",
            "What the kernel counted per second: *max* is a limit that was met, *oom_kill* a process that was killed. "
            "Any kill explains a rank that ended without a word.",
            [
                PromQuery(
                    rate(metrics.RL_CGROUP_MEMORY_EVENTS, attributes.RL_CGROUP_MEMORY_EVENT, where=_RANKS),
                    legend=shown(attributes.RL_CGROUP_MEMORY_EVENT),
                    empty_when="no control group",
                )
            ],
            "cps",
        ),
        _panel(
            "Memory of the node in use",
            "Used memory of each node without caches of files, from one process of it.",
            [
                PromQuery(
                    latest(
                        metrics.SYSTEM_MEMORY_USAGE,
                        _RANK,
                        where=(Match(attributes.SYSTEM_MEMORY_STATE, SystemMemoryStateValues.USED),),
                    ),
                    legend=_OF_NODE,
                )
            ],
            "bytes",
        ),
        _panel(
            "Garbage collection, by rank",
            "Share of time for which the garbage collector of Python stops a rank. Every rank waits for it in the next "
            "collective. Above a percent: fewer objects that live long, or gc.freeze() after the set-up.",
            [PromQuery(rate(metrics.RL_GC_TIME, _RANK, where=_RANKS), legend=_OF_RANK)],
            "percentunit",
        ),
        _panel(
            "Compilation, by rank",
            "Share of time in which torch.compile compiles. After the first steps it should be zero: the events "
            "rl.compile.recompilation in the log say what was compiled again, and why.",
            [
                PromQuery(
                    rate(metrics.RL_COMPILE_TIME, _RANK, where=_RANKS),
                    legend=_OF_RANK,
                    empty_when="torch.compile is not used",
                )
            ],
            "percentunit",
        ),
        _panel(
            "CUDA memory, by rank",
            "Memory in PyTorch's allocator: held by tensors, and reserved. A wide gap is fragmentation or a cache that "
            "was large once.",
            [
                PromQuery(
                    latest(metrics.RL_CUDA_MEMORY_USAGE, _RANK, attributes.RL_CUDA_MEMORY_STATE, where=_RANKS),
                    legend=f"{_OF_RANK} {shown(attributes.RL_CUDA_MEMORY_STATE)}",
                    empty_when="no CUDA",
                )
            ],
            "bytes",
        ),
        _panel(
            "GPU utilisation",
            "Share of time in which each GPU of a node ran a kernel. Low while steps are slow: the GPU waits for data, "
            "for the host or for other ranks.",
            [
                PromQuery(
                    latest(metrics.HW_GPU_UTILIZATION, _RANK, attributes.HW_ID),
                    legend=f"{_OF_NODE}, GPU {shown(attributes.HW_ID)}",
                    empty_when=_NO_GPU,
                )
            ],
            "percentunit",
        ),
    ),
)
