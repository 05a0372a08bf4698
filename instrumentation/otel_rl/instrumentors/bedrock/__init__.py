"""Model calls through ``boto3``: Converse and ConverseStream of Bedrock, and the tokens of InvokeModel.

The hook lies below ``_make_api_call``, which the official instrumentors of Bedrock and of botocore wrap: their span is
current there, and ours adds to it.
"""

from __future__ import annotations

from typing import ClassVar

from otel_rl.instrumentors.base import Instrumentor


class BedrockInstrumentor(Instrumentor):
    """Instruments the ``botocore`` package, for one of its services."""

    library: ClassVar[str] = "bedrock"
    requirements: ClassVar = ("botocore >= 1.38, < 2",)
    general_purpose: ClassVar = True
    modules: ClassVar = {"botocore.client": "patch:patch_client", "botocore.eventstream": "patch:patch_streams"}
