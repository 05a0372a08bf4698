from __future__ import annotations

import importlib.util

# The types are not in every environment that the unit tests run in.
_NEEDED = dict.fromkeys(("test_content.py", "test_message_schemas.py"), "opentelemetry.util.genai.types")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


collect_ignore = [name for name, module in _NEEDED.items() if not _is_there(module)]
