"""vLLM's own tracer, which it sets up with ``--otlp-traces-endpoint``.

https://github.com/vllm-project/vllm/blob/v0.19.0/vllm/tracing/otel.py (``init_otel_tracer``)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from otel_rl.instrumentors import engine_tracers

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

_NAME = "set_tracer_provider"
_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


def patch_tracing(module: ModuleType, patches: Patches) -> None:
    """Set vLLM's provider beside ours."""
    original = getattr(module, _NAME, None)
    if original is None:
        patches.missing.append(f"{module.__name__}.{_NAME}")
        return
    # In a child process of vLLM it is set: our own exporter goes to the endpoint there.
    exports_there_already = bool(os.environ.get(_ENDPOINT))
    setter = engine_tracers.setter("vllm", original, exports_there_already=exports_there_already)
    engine_tracers.replace(module, _NAME, setter, patches)
