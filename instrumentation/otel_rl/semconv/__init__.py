"""Names, units and buckets of every signal: generated; edit instrumentation/registry and run `make generate`."""

from __future__ import annotations

from typing import Final

SCHEMA_URL: Final = "https://otel-rl.invalid/schemas/0.1.0"
