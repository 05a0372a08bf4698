"""What each Python thread does: as text for the event, and where it is in work that may take long.

Source lines are left out. They would be read from files, which may hang with the program.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.core import code_places
from otel_rl.ranks.watchdog import get_ident
from otel_rl.semconv.attributes import TorchDistributedOperationValues

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import FrameType

#: Most threads, and most frames of one, that are written: the innermost.
THREADS, FRAMES = 64, 40
#: Files whose functions compile, load, save or debug, and what the name of the function must contain. Longer than a few
#: steps is no hang there.
_LONG_WORK = (
    ("/torch/_dynamo/convert_frame.py", ""),
    ("/torch/_inductor/compile_fx.py", "compile"),
    ("/torch/serialization.py", ""),
    ("/torch/distributed/checkpoint/state_dict_saver.py", ""),
    ("/torch/distributed/checkpoint/state_dict_loader.py", ""),
    ("/safetensors/torch.py", ""),
    ("/bdb.py", ""),
    ("/pdb.py", ""),
)
_TORCH_DISTRIBUTED = "/torch/distributed/distributed_c10d.py"
#: The longest first: ``reduce_scatter`` is no ``reduce``.
_OPERATIONS = sorted(
    (value for name, value in vars(TorchDistributedOperationValues).items() if name.isupper()), key=len, reverse=True
)


class Stacks(NamedTuple):
    """The stacks of the threads, and whether they are in long work."""

    text: str
    #: A thread compiles, loads or saves, or waits in a debugger.
    are_in_long_work: bool
    #: The operation of the function of ``torch.distributed`` that a thread has called.
    collective: str | None


def capture() -> Stacks:
    """Look at every thread but this one.

    The frames are held as short as can be. Where a function returns meanwhile, its objects are freed in this thread.
    """
    frames = _frames()
    return Stacks(as_text(frames), are_in_long_work(frames), collective(frames))


def _frames() -> dict[int, FrameType]:
    frames = dict(sys._current_frames())  # noqa: SLF001 - all threads, as faulthandler sees them
    frames.pop(get_ident(), None)
    return frames


def work_is_long() -> bool:
    """Return whether a thread but this one compiles, loads or saves; for who needs no text of the stacks."""
    return are_in_long_work(_frames())


def has_called(functions: Collection[str]) -> bool:
    """Return whether a thread is in one of these functions of ``torch.distributed``."""
    codes = (frame.f_code for top in _frames().values() for frame in _walk(top))
    return any(code.co_name in functions and code.co_filename.endswith(_TORCH_DISTRIBUTED) for code in codes)


def are_in_long_work(frames: dict[int, FrameType]) -> bool:
    """Return whether a thread compiles, loads or saves."""
    return any(_is_long_work(frame) for top in frames.values() for frame in _walk(top))


def _is_long_work(frame: FrameType) -> bool:
    code = frame.f_code
    return any(code.co_filename.endswith(file) and part in code.co_name for file, part in _LONG_WORK)


def collective(frames: dict[int, FrameType]) -> str | None:
    """Return the operation of the function of ``torch.distributed`` that a thread has called."""
    for top in frames.values():
        for frame in reversed(list(_walk(top))):
            code = frame.f_code
            operation = _operation(code.co_name) if code.co_filename.endswith(_TORCH_DISTRIBUTED) else None
            if operation is not None:
                return operation
    return None


def _operation(function: str) -> str | None:
    """``all_gather`` for ``all_gather_into_tensor``, and so on."""
    return next((name for name in _OPERATIONS if function.startswith(name)), None)


def as_text(frames: dict[int, FrameType]) -> str:
    """Return the stacks, outermost frame first as in a traceback; the main thread's stack first."""
    main = threading.main_thread().ident
    order = sorted(frames, key=lambda thread: thread != main)
    parts = [f"{_name(thread)}:\n{_stack(frames[thread])}" for thread in order[:THREADS]]
    if len(order) > THREADS:
        parts.append(f"and {len(order) - THREADS} more threads")
    return "\n".join(parts)


def _name(thread: int) -> str:
    # Not `threading.enumerate`: it takes a lock that a thread of the program may hold.
    known = threading._active.get(thread)  # type: ignore[attr-defined]  # noqa: SLF001
    return f"thread {known.name}" if known is not None else f"thread {thread}"


def _stack(top: FrameType) -> str:
    lines = list(map(code_places.line, _walk(top)))
    left_out = [f"  ({len(lines) - FRAMES} outer frames)"] if len(lines) > FRAMES else []
    return "\n".join([*left_out, *reversed(lines[:FRAMES])])


def _walk(top: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = top
    while frame is not None:
        yield frame
        frame = frame.f_back
