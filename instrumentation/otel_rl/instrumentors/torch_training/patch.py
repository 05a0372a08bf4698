"""Hooks of all optimizers, and wrappers of ``torch.autograd.backward`` and of the iterators of data loaders."""

from __future__ import annotations

import functools
import sys
from itertools import count
from typing import TYPE_CHECKING, Any

from otel_rl.core.guard import guard
from otel_rl.flight_recorder.layout import LOADER
from otel_rl.instrumentors.dynamo import timed_outside_dynamo, traced_as
from otel_rl.instrumentors.torch_training import readings
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource
from otel_rl.telemetry import Scope, deferral, progress
from otel_rl.training import guessed_steps, steps
from otel_rl.training.guessed_records import PREFIX, record_in_known_step
from otel_rl.training.guessed_steps import GuessedSteps

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

    Function = Callable[..., Any]

#: It is being imported: nothing here imports it.
torch: Any = sys.modules.get("torch")
scope = Scope("torch_training")
guesses = GuessedSteps(scope, readings)
_SITE = guard("torch_training")
#: So many first batches of a process are watched before steps are: the thread of each begins and ends with it.
_MOST_WATCHED = 8
_next_watched = count().__next__
_begin_step = timed_outside_dynamo("torch_training.optimizer_begins", guesses.optimizer_begins)
_end_step = timed_outside_dynamo("torch_training.optimizer_ended", guesses.optimizer_ended)
_begin_backward = timed_outside_dynamo("torch_training.backward_begins", guesses.backward_begins)
_end_backward = timed_outside_dynamo("torch_training.backward_ended", guesses.backward_ended)
_take_batch = timed_outside_dynamo("torch_training.batch_arrived", guesses.batch_arrived)


def patch_optimizer(module: ModuleType, patches: Patches) -> None:
    """Set hooks for all optimizers: those of subclasses, and those made before."""
    for handle in (
        module.register_optimizer_step_pre_hook(_optimizer_begins),
        module.register_optimizer_step_post_hook(_optimizer_ended),
    ):
        patches.on_restore(handle.remove)
    guessed_steps.running = guesses
    patches.on_restore(_stop)


def _stop() -> None:
    guessed_steps.running = None
    guesses.stop()


def patch_clipping(module: ModuleType, patches: Patches) -> None:
    """Read the norm that clipping returns; those of Accelerate and Lightning call it too.

    Not before torch 2.5, where a compiled function that clips would have to break its graph for our wrapper.
    """
    original = module.clip_grad_norm_
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5):
        patches.observe(module, "clip_grad_norm_", after=_clipped, required=True)
        traced_as(module.clip_grad_norm_, original)


def patch_sharded_clipping(module: ModuleType, patches: Patches) -> None:
    """Read the norm over all ranks: the function above has one for those that are not sharded only."""
    patches.observe(module, "FullyShardedDataParallel.clip_grad_norm_", after=_sharded_clipped, required=True)


def _sharded_clipped(norm: Any, _: Any, max_norm: Any = None, *__: Any, **___: Any) -> None:
    _clipped(norm, None, max_norm)


def _clipped(norm: Any, parameters: Any = None, max_norm: Any = None, *_: Any, **__: Any) -> None:  # noqa: ARG001 - by name
    if steps.may_guess:
        guesses.clipped(norm, max_norm)
    else:
        values = guesses.clipping(norm, max_norm).values()
        record_in_known_step(scope, {f"{PREFIX}{key}": value for key, value in values}, LoopSource.GIVEN)


def patch_autograd(module: ModuleType, patches: Patches) -> None:
    """Follow all backward passes: ``Tensor.backward`` looks the function up in this module."""
    patches.replace(module, "backward", _following_backward, required=True)


def patch_dataloader(module: ModuleType, patches: Patches) -> None:
    """Follow the iterators of data loaders, with and without worker processes; those of ``torchdata`` call them."""
    patches.replace(module, "_BaseDataLoaderIter.__next__", _following_next, required=True)


def _optimizer_begins(optimizer: Any, args: Any, kwargs: Any) -> None:
    if steps.may_guess:
        try:
            # The first argument is the optimizer.
            closure = args[1] if len(args) > 1 else kwargs.get("closure")
            _begin_step(optimizer, callable(closure))
        except Exception as ours:  # noqa: BLE001 - counted
            _SITE.handle(ours)


def _optimizer_ended(optimizer: Any, *_: Any) -> None:
    try:
        if steps.may_guess:
            _end_step(optimizer)
        elif scope.enabled:
            _count_gradients(optimizer)
    except Exception as ours:  # noqa: BLE001 - counted
        _SITE.handle(ours)


def _count_in_known_step(optimizer: Any) -> None:
    missing = readings.missing_gradients(optimizer)
    if missing is not None:
        record_in_known_step(scope, missing.values())


_count_gradients = timed_outside_dynamo("torch_training.gradients", _count_in_known_step)


def _following_backward(original: Function) -> Function:
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        is_followed = False
        if steps.may_guess:
            try:
                is_followed = _begin_backward(args[0] if args else kwargs.get("tensors"))
            except Exception as ours:  # noqa: BLE001 - counted
                _SITE.handle(ours)
        if not is_followed:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            with _SITE:
                _end_backward(error)
            raise
        try:
            _end_backward()
        except Exception as ours:  # noqa: BLE001 - counted
            _SITE.handle(ours)
        return result

    return backward


def _may_watch(iterator: Any) -> bool:
    """Return whether a thread may begin for the next batch: without workers the data set runs here, and may fork."""
    return iterator._num_workers > 0 and not iterator._num_yielded and _next_watched() < _MOST_WATCHED  # noqa: SLF001


def _following_next(original: Function) -> Function:
    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 - it takes its place
        since = deferral.now()
        part = None
        try:
            part = progress.part_began(LOADER, self._num_workers, may_watch=_may_watch(self))
        except Exception as ours:  # noqa: BLE001 - counted
            _SITE.handle(ours)
        has_failed = True
        try:
            batch = original(self)
            has_failed = False
        except StopIteration:
            has_failed = False
            if steps.may_guess:
                with _SITE:
                    guesses.loader_ended(id(self._dataset))
            raise
        finally:
            if part is not None:
                with _SITE:
                    progress.part_ended(part, failed=has_failed)
        if not steps.may_guess:
            return batch
        try:
            is_first = self._num_yielded == 1
            _take_batch(id(self._dataset), since, batch, torch.is_grad_enabled(), is_first)
        except Exception as ours:  # noqa: BLE001 - counted
            _SITE.handle(ours)
        return batch

    return __next__
