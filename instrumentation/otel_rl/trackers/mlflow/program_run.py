"""The run that the program itself has opened with ``mlflow``, where the program has imported it; imports nothing."""

from __future__ import annotations

import sys
from typing import Any


def is_tracking() -> bool:
    """Return whether the program has loaded MLflow's client: what it logs reaches its run without us."""
    return "mlflow.tracking.client" in sys.modules


def active_run_id() -> str:
    """Return the run that the program has open, whichever thread opened it; empty where there is none.

    ``mlflow.active_run`` knows the runs of its own thread only. ``_get_latest_active_run`` asks all threads (mlflow
    2.14 to 3.17); before that one list had the runs of all.
    """
    fluent: Any = sys.modules.get("mlflow.tracking.fluent")
    try:
        latest = getattr(fluent, "_get_latest_active_run", None)
        run = latest() if latest is not None else fluent._active_run_stack[-1]  # noqa: SLF001 - see above
        return str(run.info.run_id)
    except (AttributeError, IndexError, TypeError, KeyError):
        return ""
