"""The order of things at start, for the first process and for the children that record."""

from __future__ import annotations

import os
from _thread import allocate_lock
from contextlib import suppress
from typing import TYPE_CHECKING

from otel_rl.core.import_hooks import hooks
from otel_rl.distro import import_path
from otel_rl.process import child_processes, launch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

_starting = allocate_lock()
_has_begun = False
#: Variables that hold a whole number from 0 on.
_LIMITS = (
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT",
)
#: Modules of Ray that :mod:`otel_rl.distro.ray_hook` follows.
_OF_RAY = ("ray._private.worker", "ray._private.runtime_env.uv_runtime_env_hook")
_EXEMPLARS = "OTEL_METRICS_EXEMPLAR_FILTER"
_EXEMPLAR_FILTERS = ("trace_based", "always_on", "always_off")


def begin() -> bool:
    """Set the identity of this process and its children; return False in a launcher, which records nothing."""
    global _has_begun
    argv = child_processes.original_arguments()
    # The marker is our own where the program sets up telemetry a second time.
    replaced = not _has_begun and child_processes.has_replaced_its_program(os.environ)
    _has_begun = True
    if child_processes.is_launcher(argv):
        launch.prepare(os.environ, argv, begins=True, replaced=replaced)
        if child_processes.starts_ranks(argv):
            from otel_rl.process.child_exits import exits  # noqa: PLC0415 - not for Ray's command

            exits.watch()
        return False
    below_none = child_processes.parse_marker(os.environ) is None and not child_processes.is_worker(argv)
    # Each notebook is a run of its own, also those of one Jupyter.
    begins = below_none or child_processes.is_notebook_kernel(argv)
    launch.prepare(os.environ, argv, begins=begins, replaced=replaced)
    from otel_rl.process import inherited_context, launcher_environment  # noqa: PLC0415 - a launcher needs none of it

    launcher_environment.adopt(argv)
    _set_refused_values_aside()
    _report_invalid_settings()
    inherited = inherited_context.adopt(os.environ)
    if inherited is not None:
        from otel_rl.telemetry import propagation, run_span  # noqa: PLC0415 - rarely needed

        run_span.set_parent(inherited)
        if propagation.carry_on(os.environ):
            from otel_rl.training import trajectory_changes  # noqa: PLC0415 - only inside of a rollout

            trajectory_changes.begin_in_child(is_forked=False)
    os.environ[child_processes.MARKER] = child_processes.marker(
        os.getpid(), launcher_environment.service_name(os.environ, argv), os.environ
    )
    for name in _OF_RAY:
        hooks.after_import(name, _follow_ray)
    return True


def _follow_ray(module: ModuleType) -> None:
    from otel_rl.distro import ray_hook  # noqa: PLC0415 - few programs use Ray

    ray_hook.follow(module)


def _set_refused_values_aside() -> None:
    """Use the default, with a warning, instead of a value that the SDK refuses by an error, partly at its import.

    ``SpanLimits`` and ``LogRecordLimits`` (``_from_env_if_absent``) and ``_get_exemplar_filter``, SDK 1.44 and 1.45;
    the specification wants a warning. Limits of log records are read later too, so the variable stays away.
    """
    complaints: list[str] = []
    for name, default in {**dict.fromkeys(_LIMITS), _EXEMPLARS: "trace_based"}.items():
        value = os.environ.get(name)
        if value is None:
            continue
        text = value.strip().lower()
        is_good = value in _EXEMPLAR_FILTERS if name == _EXEMPLARS else text == "unset" or text.isdecimal()
        if not is_good:
            del os.environ[name]
            # An empty value means the default, as the specification says.
            if text:
                complaints.append(f'otel-rl: {name}="{value}" cannot be used; using {default or "the default"}')
    if complaints:
        _print_in_leader(complaints)


def _report_invalid_settings() -> None:
    from otel_rl.core import settings  # noqa: PLC0415 - a launcher needs none of it

    _print_in_leader(settings.take_complaints())


def _print_in_leader(lines: Iterable[str]) -> None:
    """Print in the leading process only: all of the launch read the same environment."""
    from otel_rl.core import stderr  # noqa: PLC0415 - a launcher needs none of it
    from otel_rl.process import process_identity  # noqa: PLC0415

    if process_identity.current().leads:
        for line in lines:
            stderr.write_line(line)


def start(loaded_before: frozenset[str], path: list[str], began: int) -> None:
    """Start everything, in the first process and in children, without upstream's start-up. Never raises.

    Args:
        loaded_before: Names of the modules that the interpreter had loaded by itself.
        path: The program's ``sys.path``; ours begins with the standard library until this returns.
        began: When our part of the start began, in ns since the epoch.
    """
    try:
        if not launch.disabled(os.environ) and begin():
            _set_up(began)
    except Exception as error:  # noqa: BLE001 - whatever it is, the program runs
        launch.report_failure(error)
    with suppress(Exception):
        import_path.release_names(loaded_before, path)


def start_now() -> str | None:
    """Start in a process whose program runs already, as in a notebook; return the run id, None with telemetry off."""
    if launch.disabled(os.environ):
        return None
    from otel_rl.process import process_identity  # noqa: PLC0415 - nothing is imported while telemetry is off

    with _starting:
        if not _is_set_up():
            _start_below_program()
    return process_identity.current().id if _is_set_up() else None


def _is_set_up() -> bool:
    from otel_rl.distro import configurator  # noqa: PLC0415 - as above

    return configurator.telemetry() is not None


def _start_below_program() -> None:
    from otel_rl.core import clock  # noqa: PLC0415 - a launcher needs none of it

    launch.choose_distro(os.environ)
    if begin():
        # Workers that the program starts from here on find us as those of an instrumented program do.
        os.environ["PYTHONPATH"] = import_path.with_bootstrap(os.environ.get("PYTHONPATH", ""))
        _set_up(clock.now())


def _set_up(began: int) -> None:
    from otel_rl.core import clock  # noqa: PLC0415 - a launcher needs none of it
    from otel_rl.distro import loader  # noqa: PLC0415 - a launcher needs none of it
    from otel_rl.pipeline import sdk_logging  # noqa: PLC0415 - a launcher needs none of it
    from otel_rl.telemetry import run_span  # noqa: PLC0415 - a launcher needs none of it

    sdk_logging.silence()
    try:
        _configure()
        loader.load_instrumentors()
    finally:
        sdk_logging.last_error.end_set_up()
    run_span.start_up = began, clock.now()


def _configure() -> None:
    name = os.environ.get("OTEL_PYTHON_CONFIGURATOR", launch.NAME)
    if name == launch.NAME:
        from otel_rl.distro import configurator  # noqa: PLC0415 - not with a configurator of the user's own

        configurator.configure()
        return
    from opentelemetry.instrumentation.version import __version__  # noqa: PLC0415
    from opentelemetry.util._importlib_metadata import entry_points  # noqa: PLC0415

    found = list(entry_points(group="opentelemetry_configurator", name=name))
    for entry_point in found:
        entry_point.load()().configure(auto_instrumentation_version=__version__)
    if not found:
        _report_missing_configurator(name)


def _report_missing_configurator(name: str) -> None:
    line = (
        f'otel-rl: OTEL_PYTHON_CONFIGURATOR="{name}" is not an installed configurator; nothing is recorded; unset it'
        f" to use {launch.NAME}"
    )
    _print_in_leader([line])
