"""The hooks of ``httpx``."""

from __future__ import annotations

import functools

from otel_rl.instrumentors import httpx_clients

patch_client = functools.partial(httpx_clients.patch_client, "httpx")
patch_models = httpx_clients.patch_models
