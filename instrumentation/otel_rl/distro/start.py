"""The order of things at start, for the first process and for the children that record."""

# ruff: noqa: PTH100, PTH118, PTH120 - pathlib costs more than all of this, in every Python child

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from otel_rl.process import child_processes, launch

if TYPE_CHECKING:
    from collections.abc import MutableMapping

BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
_PYTHON_PATH = "PYTHONPATH"


def begin() -> bool:
    """Identity of this process, and of its children; False where it is a launcher, which records nothing."""
    launch.prepare(os.environ)
    argv = child_processes.original_arguments()
    if child_processes.is_launcher(argv):
        return False
    from otel_rl.process import inherited_context, launcher_environment  # noqa: PLC0415 - a launcher needs none of it

    launcher_environment.adopt()
    _report_invalid_settings()
    inherited = inherited_context.adopt(os.environ)
    if inherited is not None:
        from otel_rl.telemetry import run_span  # noqa: PLC0415 - rarely needed

        run_span.set_parent(inherited)
    os.environ[child_processes.MARKER] = child_processes.marker(
        os.getpid(), launcher_environment.service_name(os.environ, argv), os.environ
    )
    return True


def _report_invalid_settings() -> None:
    """All processes of the launch read the same environment: only the leading one prints."""
    from otel_rl import settings, stderr  # noqa: PLC0415 - a launcher needs none of it
    from otel_rl.process import process_identity  # noqa: PLC0415

    if process_identity.current().leads:
        for complaint in settings.take_complaints():
            stderr.write_line(complaint)


def start_child() -> None:
    """Everything, in a child: upstream's start-up is not involved."""
    if launch.disabled(os.environ) or not begin():
        return
    from otel_rl.distro import loader  # noqa: PLC0415 - a launcher needs none of it
    from otel_rl.pipeline import sdk_logging  # noqa: PLC0415 - a launcher needs none of it

    sdk_logging.silence()
    _configure()
    loader.load_instrumentors()


def _configure() -> None:
    name = os.environ.get("OTEL_PYTHON_CONFIGURATOR", launch.NAME)
    if name == launch.NAME:
        from otel_rl.distro import configurator  # noqa: PLC0415 - not with a configurator of the user's own

        configurator.configure()
        return
    from opentelemetry.util._importlib_metadata import entry_points  # noqa: PLC0415

    for entry_point in entry_points(group="opentelemetry_configurator", name=name):
        entry_point.load()().configure()


def use_bootstrap(environ: MutableMapping[str, str], replaced: str) -> None:
    """Let children of this process find our bootstrap folder where they would have found ``replaced``."""
    others = [
        path for path in environ.get(_PYTHON_PATH, "").split(os.pathsep) if path and path not in (replaced, BOOTSTRAP)
    ]
    environ[_PYTHON_PATH] = os.pathsep.join([BOOTSTRAP, *others])
