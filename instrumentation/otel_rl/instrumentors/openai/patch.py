"""The wrappers around ``openai._base_client``, and those of what its helpers return."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_rl.inference.answers import Answer
from otel_rl.instrumentors import stainless_answers as answers
from otel_rl.instrumentors.stainless_clients import StainlessClient
from otel_rl.semconv.attributes import GenAiProviderNameValues

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches


def _provider_of(client: Any) -> str | None:
    """Return the provider of an Azure client, which may be on a domain of the user's own; else its address says."""
    azure = getattr(sys.modules.get("openai.lib.azure"), "BaseAzureClient", None)
    return GenAiProviderNameValues.AZURE_AI_OPENAI if azure is not None and isinstance(client, azure) else None


patch_base_client = StainlessClient("openai", _provider_of, Answer).patch


def patch_helper(module: ModuleType, patches: Patches) -> None:
    """Patch what ``chat.completions.stream()`` or ``responses.stream()`` gives: it closes past the stream inside it."""
    stream = "ChatCompletionStream" if ".chat." in module.__name__ else "ResponseStream"
    for name in (stream, f"Async{stream}"):
        answers.observe_close(module, name, patches)
