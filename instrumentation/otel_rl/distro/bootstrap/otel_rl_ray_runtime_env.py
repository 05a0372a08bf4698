# ruff: noqa: INP001, D100, ANN001, ANN201, ANN202, PTH100, PTH120, BLE001 - found by Python of any age through PYTHONPATH; not part of the package
# mypy: ignore-errors
# RAY_RUNTIME_ENV_HOOK: ray.init asks it for the job's runtime environment (ray 2.60, ray._private.worker,
# _maybe_modify_runtime_env). It lies beside our sitecustomize, so that every worker that inherits the variable from the
# node finds it, also one whose environment cannot import us. Only the standard library, no error but that of the user's
# hook.
import os
import sys
from importlib import import_module

_here = os.path.dirname(os.path.abspath(__file__))
# Path of the user's own hook; distro/ray_hook.py puts it there.
users = None
# The runtime environment is shown on Ray's dashboard.
_SECRET = ("HEADER", "KEY", "CERTIFICATE", "TOKEN", "PASSWORD", "SECRET")


def hook(runtime_env):
    """Ask the user's hook, if there is one, then extend what it returns."""
    if users:
        runtime_env = _load(users)(runtime_env)
    return extended(runtime_env)


def _load(path):
    load_class = getattr(sys.modules.get("ray._private.worker"), "load_class", None)
    if load_class is not None:
        return load_class(path)
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def extended(runtime_env):
    """Let the workers of this job find our bootstrap folder and belong to the driver's run; what the user set wins."""
    try:
        ours = {
            name: value
            for name, value in os.environ.items()
            if name.startswith("OTEL_") and not any(part in name for part in _SECRET)
        }
        changed = dict(runtime_env or {})
        env_vars = dict(changed.get("env_vars") or {})
        # Ray replaces ${PYTHONPATH} by what the node has.
        folders = env_vars.get("PYTHONPATH", "${PYTHONPATH}")
        if _here not in folders.split(os.pathsep):
            env_vars["PYTHONPATH"] = _here + os.pathsep + folders
        changed["env_vars"] = {**ours, **env_vars}
    except Exception:
        return runtime_env
    return changed
