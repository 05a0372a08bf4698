"""The hooks of ``httpx2``."""

from __future__ import annotations

import functools

from otel_rl.instrumentors import httpx_clients

patch_client = functools.partial(httpx_clients.patch_client, "httpx2")
patch_models = httpx_clients.patch_models
