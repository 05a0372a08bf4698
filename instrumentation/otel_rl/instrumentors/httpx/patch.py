"""The hooks of ``httpx``."""

from __future__ import annotations

import functools

from otel_rl.instrumentors import httpx_clients
from otel_rl.telemetry import Scope

patch_client = functools.partial(httpx_clients.patch_client, Scope("httpx"))
patch_models = httpx_clients.patch_models
