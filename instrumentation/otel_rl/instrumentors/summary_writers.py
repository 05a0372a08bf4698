"""Wrappers of a ``SummaryWriter``, of torch or of tensorboardX: they have the same methods.

A writer is given one value at a time. Those of a step become one record.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_rl.training import open_trackers
from otel_rl.training.scalars import Source
from otel_rl.training.trackers import Tracker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

#: Methods that show what is no value -> why it is left out.
_LEFT_OUT = {
    "add_histogram": "histogram",
    "add_histogram_raw": "histogram",
    "add_image": "image",
    "add_images": "image",
    "add_image_with_boxes": "image",
    "add_figure": "image",
    "add_video": "video",
    "add_audio": "audio",
}


def patch(module: ModuleType, patches: Patches, library: str) -> None:
    """Patch the writer of a module of ``library``."""
    tracker = Tracker(library, Source.TENSORBOARD)

    def scalar(writer: Any, tag: str, scalar_value: Any, global_step: Any = None, *__: Any, **___: Any) -> None:
        open_trackers.note("tensorboard", writer)
        tracker.single(tag, scalar_value, global_step)

    def text(_: Any, tag: str, text_string: Any, global_step: Any = None, *__: Any, **___: Any) -> None:
        tracker.single(tag, text_string, global_step)

    def scalars(
        _: Any, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None, *__: Any, **___: Any
    ) -> None:
        for tag, value in tag_scalar_dict.items():
            tracker.single(f"{main_tag}/{tag}", value, global_step)

    def parameters_begin(
        _: Any,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        *arguments: Any,
        global_step: Any = None,
        **__: Any,
    ) -> Token[object] | None:
        # The writer opens a second one for the values, which would log them without their step.
        tracker.parameters(hparam_dict)
        return tracker.begin(metric_dict, arguments[-1] if global_step is None and arguments else global_step)

    patches.observe(module, "SummaryWriter.add_scalar", before=scalar, required=True)
    patches.observe(module, "SummaryWriter.add_scalars", before=scalars, required=True)
    patches.observe(module, "SummaryWriter.add_text", before=text, required=True)
    patches.observe(module, "SummaryWriter.add_hparams", begin=parameters_begin, end=tracker.end, required=True)
    patches.observe(
        module, "SummaryWriter.close", before=lambda writer, *_, **__: open_trackers.closing("tensorboard", writer)
    )
    for method, reason in _LEFT_OUT.items():
        patches.observe(module, f"SummaryWriter.{method}", before=partial(_left_out, tracker, reason))


def _left_out(tracker: Tracker, reason: str, *_: Any, **__: Any) -> None:
    tracker.leave_out(reason)
