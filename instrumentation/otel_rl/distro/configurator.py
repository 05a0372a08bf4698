"""Set up the SDK from ``OTEL_CONFIG_FILE``, else from the other variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from otel_rl.core import instrumentor_status, stderr
from otel_rl.core.guard import Loading, guard, raised_by_signal_handler
from otel_rl.process import child_processes, launch

if TYPE_CHECKING:
    from types import ModuleType

    from otel_rl.pipeline.providers import Telemetry
    from otel_rl.process.exit_records import Exit
    from otel_rl.training.steps import Step

#: What starts the children whose ends are recorded, see :mod:`otel_rl.process.child_exits`.
_STARTS_CHILDREN = (
    "torch.distributed.elastic.multiprocessing.api",
    "multiprocessing.popen_fork",
    "multiprocessing.popen_forkserver",
)
CONFIG_FILE = "OTEL_CONFIG_FILE"

_telemetry: Telemetry | None = None
#: Whether the parts of :func:`_load` are there; None before it was tried.
_is_loaded: bool | None = None
_loading = Loading()
_has_console = False


def telemetry() -> Telemetry | None:
    """Return the telemetry of this process; None before set-up or with a foreign configurator."""
    return _telemetry


class OtelRlConfigurator:
    """Entry point ``otel_rl`` of group ``opentelemetry_configurator``."""

    def configure(self, **kwargs: Any) -> None:
        """Set up the providers once; in a launcher or with ``OTEL_SDK_DISABLED`` there is nothing to set up."""
        if not launch.disabled(os.environ) and not child_processes.is_launcher(child_processes.original_arguments()):
            configure()


def configure() -> None:
    """Set up the providers, and what happens when the process ends or forks; where that cannot be done, say why."""
    if _telemetry is not None:
        return
    try:
        _configure()
    except Exception as error:  # noqa: BLE001 - mostly a variable of OpenTelemetry's with a value that the SDK refuses
        launch.report_failure(error)


def _configure() -> None:
    global _telemetry
    from otel_rl.core import settings  # noqa: PLC0415 - none of this where nothing is set up
    from otel_rl.core.import_hooks import hooks  # noqa: PLC0415
    from otel_rl.ending import exit as process_exit  # noqa: PLC0415
    from otel_rl.ending import forks  # noqa: PLC0415
    from otel_rl.telemetry import (  # noqa: PLC0415
        lifecycle,
        open_spans,  # noqa: F401 - at the first span the program may have no descriptor left to load it
        run_span,
    )
    from otel_rl.training import steps  # noqa: PLC0415

    # Already taken where our distro started the process.
    for complaint in settings.take_complaints():
        _complain(complaint)
    if settings.current().redact is not None:
        from otel_rl.telemetry import redaction  # noqa: PLC0415 - rarely asked for

        redaction.report_bad_form()
    path = os.environ.get(CONFIG_FILE, "").strip()
    _telemetry = (_from_file(path) if path else None) or _from_variables()
    _follow_for_trackers(_telemetry)
    process_exit.register(_telemetry)
    forks.register(_telemetry)
    for name in _STARTS_CHILDREN:
        hooks.after_import(name, _follow_children)
    hooks.after_import("multiprocessing.process", _load_for_calls)
    steps.openers.add(_first_step)
    lifecycle.at_first_record(_observe_pressure)
    lifecycle.at_first_record(_describe_run)
    if settings.current().console:
        lifecycle.at_first_record(_start_console)
    run_span.begin()


def _follow_for_trackers(telemetry: Telemetry) -> None:
    """Follow what goes to MLflow, and to trackers of the program; few processes write to either."""
    from otel_rl.core import settings  # noqa: PLC0415 - see above

    is_mlflow, written = settings.current().mlflow, settings.current().write_back or ()
    with guard("configurator.trackers"):
        if is_mlflow or "mlflow" in written:
            from otel_rl.trackers.mlflow import following  # noqa: PLC0415 - as above

            following.begin(telemetry, figures_only=not is_mlflow)
        if written:
            from otel_rl.trackers.write_back import following as write_back  # noqa: PLC0415 - as above

            write_back.begin(written, telemetry)


def _first_step(step: Step) -> None:
    """Start what follows steps at the first one: a process without steps pays nothing for it."""
    from otel_rl.training import steps  # noqa: PLC0415 - see above

    # Each part starts once, also where a signal handler or another thread opens a step just now.
    if _loading.is_here or not steps.openers.remove(_first_step):
        return
    while _following:
        start = _following.pop()
        try:
            with guard(f"configurator.{start.__name__}"):
                start(step)
        except BaseException:
            # Of a signal handler of the program: the next step goes on with this part.
            _following.append(start)
            steps.openers.add(_first_step)
            raise


def _start_pressure(step: Step) -> None:
    if _loaded():
        from otel_rl.runtime_metrics import step_pauses  # noqa: PLC0415 - see above

        step_pauses.start(step)


def _start_own_cost(step: Step) -> None:
    from otel_rl.training import own_cost  # noqa: PLC0415 - see above

    own_cost.start(step)


def _start_health(_: Step) -> None:
    """Start the health rules; where nothing more can be imported the steps go on without them."""
    from otel_rl.core import settings  # noqa: PLC0415 - see above

    if settings.current().health_rules == "off":
        return
    try:
        with _loading:
            from otel_rl.health import live  # noqa: PLC0415 - see above

        live.start()
    except Exception as error:  # noqa: BLE001 - whatever an audit hook raises
        instrumentor_status.report_unloadable("health", error, "no health rules")


def _follow_pools(_: Step) -> None:
    """Let calls for pools of processes carry their steps."""
    if _loaded():
        from otel_rl.api import continuation  # noqa: PLC0415 - see above

        continuation.install_for_steps()


def _describe_run(_: Step | None = None) -> None:
    """Record with the first record, and again with the first step, what the process has done and of which program."""
    if _loaded():
        from otel_rl.telemetry import run_parts  # noqa: PLC0415 - see above

        run_parts.await_report()


def _note_work(_: Step) -> None:
    from otel_rl.process import process_identity  # noqa: PLC0415 - see above

    process_identity.note_work()


#: What follows the steps of a process and has not started yet, the first one last.
_following = [_describe_run, _start_health, _start_own_cost, _start_pressure, _follow_pools, _note_work]


def _start_console() -> None:
    global _has_console
    if not _has_console:
        _has_console = True
        from otel_rl.console import steps  # noqa: PLC0415 - see above

        steps.start()


def _observe_pressure() -> None:
    """Observe at the first record: a process that records nothing observes nothing."""
    if _loaded():
        from otel_rl.runtime_metrics import observed  # noqa: PLC0415 - see above

        observed.register()
        _observe_engines()


def _observe_engines() -> None:
    from otel_rl.process import process_identity  # noqa: PLC0415 - see above

    if not process_identity.current().leads:
        return
    try:
        from otel_rl.inference import engine_metrics  # noqa: PLC0415 - one process of the run asks
    except Exception as error:  # noqa: BLE001 - whatever an audit hook raises
        instrumentor_status.report_unloadable("engine_metrics", error, "no queue and cache of engines")
    else:
        engine_metrics.register()


def _loaded() -> bool:
    """Return whether the process can still import: not without descriptors, in another root, or under an audit hook."""
    global _is_loaded
    if _is_loaded is None and not _loading.is_here:
        with _loading:
            _is_loaded = _load()
    return bool(_is_loaded)


def _load() -> bool:
    try:
        from otel_rl.runtime_metrics import observed, step_pauses  # noqa: F401, PLC0415 - tried here
        from otel_rl.telemetry import run_parts  # noqa: F401, PLC0415 - as above
    except Exception as error:  # noqa: BLE001 - whatever an audit hook raises
        instrumentor_status.report_unloadable("pressure", error, "no memory, no pauses")
        return False
    return True


def _follow_children(module: ModuleType) -> None:
    try:
        from otel_rl.process.child_exits import exits  # noqa: PLC0415 - most processes start no children

        exits.report = _child_ended
        exits.follow(module)
    except Exception as error:  # noqa: BLE001 - whatever an audit hook raises
        # A process that can import no more: without descriptors, in another root, or by an audit hook.
        _pass_on(error)


def _load_for_calls(_: ModuleType) -> None:
    """Load what reads the calls of pools: a pool may lock its workers up before their first call."""
    try:
        from otel_rl.api import spawned  # noqa: F401, PLC0415 - not where no processes are started
    except Exception as error:  # noqa: BLE001 - as above
        _pass_on(error)


def _pass_on(error: Exception) -> None:
    """Raise again what a signal handler of the program has raised inside our code."""
    if raised_by_signal_handler(error):
        raise error


def _child_ended(exit_: Exit) -> None:
    from otel_rl.ending import children  # noqa: PLC0415 - most processes start no child that fails

    children.report(exit_)


def _from_variables() -> Telemetry:
    from otel_rl.pipeline import exporter_selection, providers, resource, sdk_metrics  # noqa: PLC0415
    from otel_rl.process import launcher_environment  # noqa: PLC0415
    from otel_rl.telemetry import self_metrics  # noqa: PLC0415

    chosen = exporter_selection.choose(os.environ)
    for complaint in chosen.complaints:
        _complain(complaint)
    service = launcher_environment.service_name(os.environ, child_processes.original_arguments())
    telemetry = providers.build(chosen, resource.create(service))
    self_metrics.register()
    sdk_metrics.register(telemetry)
    return telemetry


def _complain(line: str) -> None:
    """Print complaints in the leading process only: all of the launch read the same variables."""
    from otel_rl.process import process_identity  # noqa: PLC0415 - none of this where nothing is set up

    if process_identity.current().leads:
        stderr.write_line(line)


def _from_file(path: str) -> Telemetry | None:
    """Build the providers from the file with upstream's loader; on failure print one line and return None."""
    from otel_rl.pipeline import config_file  # noqa: PLC0415

    try:
        return config_file.build(path)
    except ImportError:
        _complain(
            f"otel-rl: {CONFIG_FILE} is set but opentelemetry-configuration is not installed"
            " (pip install opentelemetry-configuration); going by the other variables"
        )
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the file, the program runs
        reason = str(error).strip().splitlines() or [type(error).__name__]
        _complain(f"otel-rl: {CONFIG_FILE}={path} cannot be used ({reason[0]}); going by the other variables")
    return None
