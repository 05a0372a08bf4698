"""The instruments: registered with the first record of the process, read at each export on an I/O thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.core import instrumentor_status
from otel_rl.process import process_identity
from otel_rl.runtime_metrics import cuda, host, step_pauses
from otel_rl.runtime_metrics.cgroups import MemoryGroup
from otel_rl.runtime_metrics.compilations import compilations
from otel_rl.runtime_metrics.garbage import pauses
from otel_rl.runtime_metrics.gpus import Gpus
from otel_rl.semconv import attributes, metrics
from otel_rl.semconv.attributes import HwTypeValues
from otel_rl.telemetry import lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_rl.semconv.definitions import MetricDefinition

    Values = Iterator[tuple[float, Mapping[str, Any]]]

#: The instrumentor of OpenTelemetry that reports process and node under the same names; then ours does not.
OTHER = "system_metrics"
_NO_ATTRIBUTES: Mapping[str, Any] = {}
#: Question to a GPU -> metric.
_GPU: Mapping[str, MetricDefinition] = {
    "utilization": metrics.HW_GPU_UTILIZATION,
    "used": metrics.HW_GPU_MEMORY_USAGE,
    "memory": metrics.HW_GPU_MEMORY_LIMIT,
    "power": metrics.HW_POWER,
    "temperature": metrics.HW_TEMPERATURE,
}
_OF_ALL_HARDWARE = ("power", "temperature")

scope = step_pauses.scope
_group = MemoryGroup()
_gpus = Gpus()
_registered = False


def register() -> None:
    """Observe everything; later calls do nothing."""
    global _registered
    if _registered:
        return
    _registered = True
    pauses.watch()
    for metric, callback in {**_PROCESS, **_NODE}.items():
        scope.observe(metric, _unless_others(callback))
    for metric, callback in _OURS.items():
        scope.observe(metric, callback)
    for field, metric in _GPU.items():
        scope.observe(metric, _gpu(field))
    lifecycle.after_fork_in_child(pauses.reset)
    lifecycle.after_fork_in_child(compilations.reset)


def _unless_others(callback: Callable[[], Values]) -> Callable[[], Values]:
    def values() -> Values:
        other = instrumentor_status.snapshot().get(OTHER)
        if other is None or other["state"] != instrumentor_status.ACTIVE:
            yield from callback()

    return values


def _speaks_for_node() -> bool:
    """Return whether this is the process that reports its node: the first rank, else the one that leads the run."""
    who = process_identity.current()
    return who.local_rank == 0 if who.local_rank is not None else who.leads


def _process_cpu() -> Values:
    for mode, seconds in host.process_cpu().items():
        yield seconds, {attributes.CPU_MODE: mode}


def _process_memory(place: int) -> Callable[[], Values]:
    def values() -> Values:
        memory = host.process_memory()
        if memory is not None:
            yield memory[place], _NO_ATTRIBUTES

    return values


def _single(read: Callable[[], float | None]) -> Callable[[], Values]:
    def values() -> Values:
        value = read()
        if value is not None:
            yield value, _NO_ATTRIBUTES

    return values


def _node_cpu() -> Values:
    if _speaks_for_node():
        for mode, seconds in host.node_cpu().items():
            yield seconds, {attributes.CPU_MODE: mode}


def _node_memory() -> Values:
    memory = host.node_memory() if _speaks_for_node() else None
    for state, size in memory[1].items() if memory else ():
        yield size, {attributes.SYSTEM_MEMORY_STATE: state}


def _node_memory_limit() -> Values:
    memory = host.node_memory() if _speaks_for_node() else None
    if memory:
        yield memory[0], _NO_ATTRIBUTES


def _collections() -> Values:
    for generation, number in enumerate(pauses.collections):
        yield number, {attributes.CPYTHON_GC_GENERATION: generation}


def _collection_time() -> Values:
    for generation, seconds in enumerate(pauses.seconds) if pauses.are_timed else ():
        yield seconds, {attributes.CPYTHON_GC_GENERATION: generation}


def _group_events() -> Values:
    for event, number in _group.events.items() if _group.exists else ():
        yield number, {attributes.RL_CGROUP_MEMORY_EVENT: event}


def _compiled(read: Callable[[], float]) -> Callable[[], Values]:
    def values() -> Values:
        # Between two steps, or in a process without steps.
        step_pauses.record_recompilations()
        if compilations.number:
            yield read(), _NO_ATTRIBUTES

    return values


def _cuda_memory() -> Values:
    for device, statistics in cuda.devices():
        for state, key in cuda.STATES.items():
            yield statistics.get(key, 0), {attributes.RL_CUDA_DEVICE: device, attributes.RL_CUDA_MEMORY_STATE: state}


def _of_devices(key: str) -> Callable[[], Values]:
    def values() -> Values:
        for device, statistics in cuda.devices():
            yield statistics.get(key, 0), {attributes.RL_CUDA_DEVICE: device}

    return values


def _gpu(field: str) -> Callable[[], Values]:
    kind = {attributes.HW_TYPE: HwTypeValues.GPU} if field in _OF_ALL_HARDWARE else _NO_ATTRIBUTES

    def values() -> Values:
        for number, value in _gpus.ask(field) if _speaks_for_node() else ():
            yield value, {attributes.HW_ID: number, **kind}

    return values


_PROCESS: dict[MetricDefinition, Callable[[], Values]] = {
    metrics.PROCESS_CPU_TIME: _process_cpu,
    metrics.PROCESS_MEMORY_USAGE: _process_memory(0),
    metrics.PROCESS_MEMORY_VIRTUAL: _process_memory(1),
    metrics.PROCESS_THREAD_COUNT: _single(host.process_threads),
    metrics.PROCESS_UNIX_FILE_DESCRIPTOR_COUNT: _single(host.process_descriptors),
    metrics.CPYTHON_GC_COLLECTIONS: _collections,
}
_NODE: dict[MetricDefinition, Callable[[], Values]] = {
    metrics.SYSTEM_CPU_TIME: _node_cpu,
    metrics.SYSTEM_MEMORY_USAGE: _node_memory,
    metrics.SYSTEM_MEMORY_LIMIT: _node_memory_limit,
}
_OURS: dict[MetricDefinition, Callable[[], Values]] = {
    metrics.RL_GC_TIME: _collection_time,
    metrics.RL_CGROUP_MEMORY_USAGE: _single(lambda: _group.usage),
    metrics.RL_CGROUP_MEMORY_LIMIT: _single(lambda: _group.limit),
    metrics.RL_CGROUP_MEMORY_EVENTS: _group_events,
    metrics.RL_COMPILE_COMPILATIONS: _compiled(lambda: compilations.number),
    metrics.RL_COMPILE_RECOMPILATIONS: _compiled(lambda: compilations.recompilations),
    metrics.RL_COMPILE_TIME: _compiled(lambda: compilations.seconds),
    metrics.RL_CUDA_MEMORY_USAGE: _cuda_memory,
    metrics.RL_CUDA_MEMORY_PEAK: _of_devices(cuda.PEAK),
    metrics.RL_CUDA_OOMS: _of_devices(cuda.OUT_OF_MEMORY),
    metrics.RL_CUDA_ALLOC_RETRIES: _of_devices(cuda.RETRIES),
    metrics.RL_PINNED_MEMORY_USAGE: _single(cuda.pinned),
}
