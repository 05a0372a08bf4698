"""How the actors of a job ended: the cluster knows it, and the driver asks before it leaves."""

from __future__ import annotations

from typing import Any

from otel_rl.telemetry import Scope

scope = Scope("ray.ends")


def leaving(*_: Any, **__: Any) -> None:
    """Record the actors of this job that are dead by now; those that live end with the driver."""
