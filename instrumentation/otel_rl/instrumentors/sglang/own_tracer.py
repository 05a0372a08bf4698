"""SGLang's own tracer, which each of its processes sets up with ``--enable-trace``.

https://github.com/sgl-project/sglang/blob/v0.5.23/python/sglang/srt/observability/trace.py (``process_tracing_init``)
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from otel_rl.instrumentors import engine_tracers

if TYPE_CHECKING:
    from otel_rl.instrumentors.patching import Patches

#: The module calls functions of the API by this name: ``trace.set_tracer_provider(...)``.
_NAME = "trace"


def patch_trace(module: ModuleType, patches: Patches) -> None:
    """Give the module an API of its own, whose ``set_tracer_provider`` sets SGLang's provider beside ours."""
    api = getattr(module, _NAME, None)
    if api is None:
        # It has found no exporter and traces nothing.
        return
    own = ModuleType(api.__name__)
    vars(own).update(vars(api))
    own.set_tracer_provider = engine_tracers.setter(  # type: ignore[attr-defined]
        "sglang", api.set_tracer_provider, exports_there_already=False
    )
    engine_tracers.replace(module, _NAME, own, patches)
