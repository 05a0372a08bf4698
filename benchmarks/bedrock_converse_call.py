"""Added CPU time of a Converse of Bedrock: ours over the official instrumentor's span, against that instrumentor.

    ENVIRONMENT/bin/python benchmarks/bedrock_converse_call.py [--rounds 40] [--calls 64] [--output FILE]

ENVIRONMENT has this pack, `boto3` and `opentelemetry-instrumentation-genai-bedrock`. The client answers its request
itself before it is sent, so what is left is the client's own work and what is added to it. `owned_calls` says how it is
measured.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import owned_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALL = {
    "modelId": "amazon.nova:0",
    "messages": [{"role": "user", "content": [{"text": "hi"}]}],
    "inferenceConfig": {"maxTokens": 4, "temperature": 0.5},
}
ANSWER = json.dumps(
    {
        "output": {"message": {"role": "assistant", "content": [{"text": "hello"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
        "metrics": {"latencyMs": 1},
    }
).encode()
LIMITS = {"call": 0.3}


class _Body:
    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield ANSWER


def _converse() -> Callable[[], object]:
    import boto3
    from botocore.awsrequest import AWSResponse

    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 - of no account
    )

    def answer(request: Any, **_: object) -> Any:
        return AWSResponse(request.url, 200, {"content-type": "application/json"}, _Body())

    client.meta.events.register("before-send.bedrock-runtime", answer)
    return lambda: client.converse(**CALL)


def _setup() -> tuple[dict[str, Any], dict[str, Any]]:
    from opentelemetry.instrumentation.genai.bedrock import BedrockInstrumentor as Official

    from otel_rl.instrumentors.bedrock import BedrockInstrumentor as Ours

    call = {"call": _converse()}
    return dict.fromkeys(owned_calls.VARIANTS, call), {"owner": [Official()], "both": [Official(), Ours()]}


def figures_of(samples: owned_calls.Samples) -> dict[str, Any]:
    """Ours divided by the official one's, and both by themselves."""
    return owned_calls.added_over_owner(samples, "official", LIMITS)


if __name__ == "__main__":
    sys.exit(owned_calls.main(__file__, __doc__, _setup, figures_of, {}))
