"""How workers of Ray get to know of us: by the hook of ``ray.init``, or from the environment of the cluster's head."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.distro import ray_hook

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADDRESS = "RAY_ADDRESS"
_HEAD = "start the head under opentelemetry-instrument"


def state(environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a sentence, and problems; an empty one if Ray is not installed."""
    if find_spec("ray") is None:
        return "", []
    users = environ.get(ray_hook.VARIABLE, "")
    hook = f"ray.init asks {ray_hook.VARIABLE}" + (f": yours ({users}), then ours" if users else ", which is ours")
    address, source = _cluster(environ)
    if not address:
        return f"{hook}; workers of its own cluster record", []
    if address.startswith("ray://"):
        where = f"{_ADDRESS}={address}: Ray's client asks no hook"
        return where, [f"{where}, so workers record nothing; {_HEAD}, or run the driver on the cluster"]
    return (
        f"{hook}; on the cluster at {address} ({source}) workers record by it alone, if their Python has otel-rl, which"
        " is not known here; `ray job submit` needs it in its entrypoint: opentelemetry-instrument python train.py; or"
        f" {_HEAD}"
    ), []


def _cluster(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the address of the cluster that ``ray.init()`` would join, and where it is from; empty for a new one."""
    if address := environ.get(_ADDRESS, ""):
        # That of `ray job submit`, which ray.init does not join, begins with http.
        return (address, _ADDRESS) if not address.startswith("http") and address != "local" else ("", "")
    folder = environ.get("RAY_TMPDIR") or environ.get("TMPDIR") or "/tmp"  # noqa: S108 - Ray's own default
    path = Path(folder, "ray", "ray_current_cluster")
    try:
        return path.read_text(encoding="utf-8").strip(), str(path)
    except OSError:
        return "", ""
