"""Names, units and buckets of every signal: generated; edit instrumentation/registry and run `make generate`."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

SCHEMA_URL: Final = "https://otel-rl.invalid/schemas/0.2.0"
RENAMED_ATTRIBUTES: Final = MappingProxyType({"rl.system": "rl.system.name"})
"""Former names of attributes, each with the one that took its place."""
