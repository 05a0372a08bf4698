"""What a program saves and loads by ``safetensors.torch``, whose files do not pass ``torch.save``."""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class SafetensorsInstrumentor(Instrumentor):
    """Patches ``save_file`` and ``load_file``."""

    requirements: ClassVar = ("safetensors >= 0.4, < 1",)
    modules: ClassVar = {"safetensors.torch": "patch:patch_torch"}
