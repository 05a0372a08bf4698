"""Versions of ``openai`` that this instrumentor supports; both ends are in ``tests/versions.toml``."""

from __future__ import annotations

REQUIREMENT = "openai >= 1.26, < 4"
