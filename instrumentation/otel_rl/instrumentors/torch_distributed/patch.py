"""Wrappers of ``torch.distributed``: the process group's methods, ``Work.wait`` and ``init_process_group``.

Module functions such as ``all_reduce`` are left alone. Patching them would miss whoever imported them before, count
twice, and break programs: ``P2POp(isend, ...)`` compares function identity.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from otel_rl.collectives import inherited_methods
from otel_rl.collectives.flight_records import FlightRecords
from otel_rl.collectives.mode import Mode
from otel_rl.collectives.recorder import CollectiveRecorder
from otel_rl.collectives.reports import CollectiveReporter
from otel_rl.core import instrumentor_status, settings
from otel_rl.instrumentors.dynamo import outside_dynamo
from otel_rl.instrumentors.torch_distributed import group_names, sequence_numbers
from otel_rl.instrumentors.torch_distributed.dispatcher import DispatcherKernels
from otel_rl.instrumentors.torch_distributed.operations import IN_ALL_VERSIONS, METHODS, Method
from otel_rl.instrumentors.torch_distributed.process_group_init import announce
from otel_rl.process import process_identity
from otel_rl.ranks.stragglers import watch
from otel_rl.semconv.attributes import RlRoleValues
from otel_rl.semconv.attributes import RlRunPartValues as Part
from otel_rl.telemetry import Scope, run_parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

    Function = Callable[..., Any]

scope = Scope("torch_distributed")
#: Place of the parameter of ``init_process_group``.
_WORLD_SIZE = 3
#: Made of sends and receives with each rank, all of which get a number, and waits for them (torch 2.13,
#: ``ProcessGroupGloo``).
_MONITORED = "monitored_barrier"


def patch_distributed_c10d(module: ModuleType, patches: Patches) -> None:
    """Patch ``torch.distributed.distributed_c10d`` right after its import, before anyone can import names from it."""
    if _is_launcher():
        return
    patches.on_restore(_stop)
    joining = run_parts.following(Part.RENDEZVOUS, _world_size)
    patches.observe(module, "init_process_group", **joining, after=lambda *_, **__: _group_made(module), required=True)
    if settings.current().nccl_timing == "on":
        _nccl_timing().switch_on(os.environ)
        patches.observe(module, "destroy_process_group", before=_nccl_timing().groups_end)
    if settings.current().collectives == "off":
        return
    reporter = collectives()
    recorder = reporter.recorder
    if settings.current().ring == "on":
        recorder.flight_records = FlightRecords(functools.partial(group_names.describe, module), outside_dynamo)
        # Not public; every `new_group` calls it (torch 2.4 to 2.13). Other groups count from their first collective on.
        patches.observe(module, "_new_group_with_tag", after=_count_group)
    for method in METHODS:
        patches.replace(
            module.ProcessGroup,
            method.name,
            functools.partial(_counted, reporter, method),
            required=method.name in IN_ALL_VERSIONS,
        )
    patches.replace(module, "Work.wait", functools.partial(_timed, recorder), required=True)
    mode()
    reporter.start()


def _world_size(*args: Any, world_size: int = -1, **_: Any) -> int:
    """Return how many ranks are to join, by the arguments of ``init_process_group`` or its variable; 0: not known."""
    world_size = args[_WORLD_SIZE] if len(args) > _WORLD_SIZE else world_size
    return world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE") or 0)


def patch_data_parallel(module: ModuleType, patches: Patches) -> None:
    """Patch ``torch.nn.parallel.distributed``: who wraps a model has collectives that Python does not issue."""
    if _is_launcher() or settings.current().collectives == "off":
        return
    patches.observe(module, "DistributedDataParallel.__init__", before=_model_wrapped)


def _model_wrapped(*_: Any, **__: Any) -> None:
    # Its C++ code compares the shapes of the parameters first, by collectives that are not seen.
    collectives().unseen.blur()
    mode().model_wrapped()


def _count_group(process_group: Any, *_: Any, **__: Any) -> None:
    records = collectives().recorder.flight_records
    # A rank that is not in the group gets a number.
    if records is not None and not isinstance(process_group, int):
        records.group_made(process_group)


def _group_made(module: ModuleType) -> None:
    announce(module, scope)
    mode().group_made()
    if settings.current().collectives != "off":
        _count_group(module.group.WORLD)
        watch.start()
    # Of several back ends ``get_backend`` names none.
    if "nccl" in str(module.get_backend_config()):
        _nccl_timing().group_made(module, scope)


@functools.cache
def collectives() -> CollectiveReporter:
    """Return the reporter of this process; it outlives an uninstrumentation: instruments cannot be taken back."""
    recorder = CollectiveRecorder(settings.current().slowest, outside_dynamo)
    return CollectiveReporter(recorder, scope, sequence_numbers.read)


@functools.cache
def kernels() -> DispatcherKernels:
    """Return the kernels of this process; they are put on when :func:`mode` asks for them."""
    # Where a kernel counts the first collective, a lock of PyTorch may be held: no place for the SDK.
    return DispatcherKernels(collectives().recorder, collectives().observe)


def mode() -> Mode:
    """Whether all collectives are seen, or those of Python."""
    reporter = collectives()
    if reporter.mode is None:
        reporter.mode = Mode(settings.current().collectives, kernels(), _degraded)
    return reporter.mode


def _degraded(reason: str) -> None:
    instrumentor_status.report("otel_rl_torch_distributed", instrumentor_status.DEGRADED, reason)


def _nccl_timing() -> ModuleType:
    # Few programs on a CPU need it.
    from otel_rl.instrumentors.torch_distributed import nccl_timing  # noqa: PLC0415 - see above

    return nccl_timing


def _stop() -> None:
    """After the originals are back: let no step ask us any more."""
    if settings.current().nccl_timing == "on":
        _nccl_timing().stop()
    reporter = collectives()
    reporter.stop()
    reporter.mode = None
    # Methods that are replaced anew would not tell them what is counted already.
    kernels().remove()


def _is_launcher() -> bool:
    # The agent of torchrun imports torch.distributed but trains nothing.
    return process_identity.current().role == RlRoleValues.LAUNCHER


def _counted(reporter: CollectiveReporter, method: Method, original: Function) -> Function:
    blocks = method.name == _MONITORED
    call = _blurring(reporter, original) if blocks else original
    recording = reporter.recorder.recording(method.operation, method.payload, call, blocks=blocks)
    return functools.update_wrapper(inherited_methods.calling(original, recording), original)


def _blurring(reporter: CollectiveReporter, original: Function) -> Function:
    def call(process_group: Any, *args: Any, **kwargs: Any) -> Any:
        reporter.unseen.blur()
        return original(process_group, *args, **kwargs)

    return inherited_methods.calling(original, call)


def _timed(recorder: CollectiveRecorder, original: Function) -> Function:
    return functools.update_wrapper(recorder.waiting(original), original)
