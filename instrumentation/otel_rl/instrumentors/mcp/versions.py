"""Which hooks a module gets that mcp 1.x and 2.x both have."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from otel_rl.instrumentors.mcp import version_1, version_2

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.instrumentors.patching import Patches

#: The module that mcp 2.x has no more. The two below import it.
_SESSIONS = "mcp.shared.session"


def patch_server(module: ModuleType, patches: Patches) -> None:
    """Patch the server of mcp 1.x; that of 2.x leaves requests to ``mcp.server.runner``."""
    if _SESSIONS in sys.modules:
        version_1.patch_server(module, patches)


def patch_client_session(module: ModuleType, patches: Patches) -> None:
    """Patch how a client answers what its server asks for, a completion for one."""
    version = version_1 if _SESSIONS in sys.modules else version_2
    version.patch_client_session(module, patches)
