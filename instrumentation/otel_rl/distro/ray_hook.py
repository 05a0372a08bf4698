"""Ray's hook for the environment of a job's workers, which inherit nothing from their driver on a running cluster.

``ray.init`` calls one function, which ``RAY_RUNTIME_ENV_HOOK`` names (``init`` and ``_maybe_modify_runtime_env`` in
``ray._private.worker``, Ray 2.40 and 2.60). Ours stands there for as long as ``ray.init`` runs, and calls the user's
first. A child process may have another ``PYTHONPATH`` and not find ours, so none inherits it. Below ``uv run`` Ray
calls a hook of its own instead, whose result ours extends.
"""

from __future__ import annotations

import functools
import os
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from otel_rl.distro import import_path

VARIABLE = "RAY_RUNTIME_ENV_HOOK"
_NAME = "otel_rl_ray_runtime_env"
_OURS = f"{_NAME}.hook"
_WORKER = "ray._private.worker"


def follow(module: ModuleType) -> None:
    """Have ``ray.init`` of this process ask our hook; ``module`` of Ray has just been imported."""
    (_follow_init if module.__name__ == _WORKER else _extend_uv)(module)


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


def _follow_init(worker: ModuleType) -> None:
    original, module = worker.init, _module()

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        """Stand in for ``ray.init``."""
        theirs = os.environ.get(VARIABLE)
        module.users = None if theirs == _OURS else theirs
        os.environ[VARIABLE] = _OURS
        try:
            return original(*args, **kwargs)
        finally:
            if theirs is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = theirs

    worker.init = init  # type: ignore[attr-defined]


def _extend_uv(uv: ModuleType) -> None:
    original, extended = uv.hook, _module().extended

    @functools.wraps(original)
    def hook(runtime_env: Any) -> Any:
        """Stand in for Ray's hook; an error of that one is the program's."""
        return extended(original(runtime_env))

    uv.hook = hook  # type: ignore[attr-defined]
