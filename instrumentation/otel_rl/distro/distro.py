"""Our distro, for programs that upstream's ``initialize()`` or its ``sitecustomize`` sets up.

What ``opentelemetry-instrument`` starts goes through :mod:`otel_rl.distro.start` alone.
"""

# ruff: noqa: PTH100, PTH120 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
import sys
from typing import Any

from opentelemetry.instrumentation.distro import BaseDistro

from otel_rl.core import stderr
from otel_rl.distro import import_path, start
from otel_rl.distro.bootstrap.sitecustomize import run_shadowed
from otel_rl.pipeline import sdk_logging
from otel_rl.process import launch

_UPSTREAM = "opentelemetry.instrumentation.auto_instrumentation"


class OtelRlDistro(BaseDistro):  # type: ignore[misc]  # the base has no annotations
    """Entry point ``otel_rl`` of group ``opentelemetry_distro``."""

    def _configure(self, **kwargs: Any) -> None:
        sdk_logging.silence()
        active = False
        try:
            active = not launch.disabled(os.environ) and start.begin()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program runs
            launch.report_failure(error)
        _take_over(active)

    def load_instrumentor(self, entry_point: Any, **kwargs: Any) -> None:
        """Do nothing: :mod:`otel_rl.distro.loader` has loaded them all, should upstream's loop still run."""


def _take_over(active: bool) -> None:
    """Let our loader run in the place of upstream's, and our bootstrap folder stand in the place of its own.

    Upstream's module writes its folder back to ``PYTHONPATH`` when it is done. The environment that it looks at from
    here on is a copy that says it has.
    """
    upstream = sys.modules.get(_UPSTREAM)
    if upstream is None:
        return
    folder = os.path.dirname(os.path.abspath(upstream.__file__ or ""))
    if "sitecustomize" in sys.modules and os.path.dirname(sys.modules["sitecustomize"].__file__ or "") == folder:
        _run_users_sitecustomize(folder)
    os.environ["PYTHONPATH"] = import_path.with_bootstrap(os.environ.get("PYTHONPATH", ""), folder)
    sys.path[:] = [*(entry for entry in sys.path if entry != folder), import_path.BOOTSTRAP]
    namespace = vars(upstream)
    namespace["environ"] = {**os.environ, "PYTHONPATH": folder}
    namespace["_load_instrumentors"] = _load_instrumentors if active else _load_nothing


def _run_users_sitecustomize(folder: str) -> None:
    """Run a hook as the interpreter does: one that raises costs two lines and nothing else."""
    try:
        run_shadowed(folder)  # type: ignore[no-untyped-call]  # no annotations: any Python must be able to read it
    except Exception as error:  # noqa: BLE001 - the program's own
        stderr.write_line("Error in sitecustomize; set PYTHONVERBOSE for traceback:")
        stderr.write_line(f"{type(error).__name__}: {error}")


def _load_instrumentors(_: BaseDistro) -> None:
    from otel_rl.distro import loader  # noqa: PLC0415 - not where nothing is recorded

    loader.load_instrumentors()
    sdk_logging.last_error.end_set_up()


def _load_nothing(_: BaseDistro) -> None:
    """Patch nothing, in a launcher or with ``OTEL_SDK_DISABLED``."""
    sdk_logging.last_error.end_set_up()
