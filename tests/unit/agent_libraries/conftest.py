"""Agent libraries, each tested in an environment of its own (`tests/library_versions.py`)."""

from __future__ import annotations

from importlib.util import find_spec

_MODULES = {
    "test_llama_index.py": "llama_index",
    "test_openai_agents.py": "agents",
    "test_pydantic_ai.py": "pydantic_ai",
    "test_smolagents.py": "smolagents",
}
collect_ignore = [file for file, module in _MODULES.items() if find_spec(module) is None]
