"""Versions of LangChain that this instrumentor supports; both ends are in ``tests/versions.toml``."""

from __future__ import annotations

REQUIREMENT = "langchain-core >= 0.3.40, < 2"
