"""Ray's hook for the environment of a job's workers, which inherit nothing from their driver on a running cluster.

``ray.init`` calls one function, which ``RAY_RUNTIME_ENV_HOOK`` names (``_maybe_modify_runtime_env`` in
``ray._private.worker``, Ray 2.60). Ours stands there, and calls the user's first. Below ``uv run`` Ray calls a hook of
its own instead, whose result ours extends.
"""

from __future__ import annotations

import functools
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from otel_rl.core.import_hooks import hooks
from otel_rl.distro import import_path

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "RAY_RUNTIME_ENV_HOOK"
#: Holds the user's hook, which ours calls; read by the module in the bootstrap folder.
_USERS = "OTEL_RL_RAY_RUNTIME_ENV_HOOK"
_NAME = "otel_rl_ray_runtime_env"
_OURS = f"{_NAME}.hook"
_UV = "ray._private.runtime_env.uv_runtime_env_hook"


def users(environ: Mapping[str, str]) -> str:
    """Return the user's hook: of a parent that has started us already, or the one that is set; empty without one."""
    present = environ.get(VARIABLE, "")
    return environ.get(_USERS, "") if present == _OURS else present


def offer() -> None:
    """Set our hook in this process's environment if Ray is installed, and keep the user's."""
    if find_spec("ray") is None:
        return
    module, theirs = _module(), users(os.environ)
    os.environ[VARIABLE] = _OURS
    if theirs:
        os.environ[_USERS] = theirs
    else:
        # What a parent has left there is not this process's.
        os.environ.pop(_USERS, None)
    hooks.after_import(_UV, functools.partial(_extend_uv, module.extended))


def _module() -> Any:
    """Return the module of the hook, as Ray will import it."""
    if _NAME not in sys.modules:
        # By path: the bootstrap folder is on the path of our children, not of this process.
        loader = SourceFileLoader(_NAME, f"{import_path.BOOTSTRAP}{os.sep}{_NAME}.py")
        module = ModuleType(_NAME)
        module.__file__ = loader.path
        loader.exec_module(module)
        sys.modules[_NAME] = module
    return sys.modules[_NAME]


def _extend_uv(extended: Any, uv: ModuleType) -> None:
    original = uv.hook

    @functools.wraps(original)
    def hook(runtime_env: Any) -> Any:
        """Stand in for Ray's hook; an error of that one is the program's."""
        return extended(original(runtime_env))

    uv.hook = hook  # type: ignore[attr-defined]
