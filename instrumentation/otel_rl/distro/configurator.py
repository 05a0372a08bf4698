"""Set up the SDK from ``OTEL_CONFIG_FILE``, else from the other variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from otel_rl import stderr
from otel_rl.process import child_processes, launch

if TYPE_CHECKING:
    from otel_rl.pipeline.providers import Telemetry

CONFIG_FILE = "OTEL_CONFIG_FILE"

_telemetry: Telemetry | None = None


def telemetry() -> Telemetry | None:
    """What has been set up in this process; None with a configuration file, a foreign configurator, or nothing."""
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
        launch.tell_failure(error)


def _configure() -> None:
    global _telemetry
    from otel_rl import settings  # noqa: PLC0415 - none of this where nothing is set up
    from otel_rl.ending import exit as process_exit  # noqa: PLC0415

    # Already taken where our distro started the process.
    for complaint in settings.take_complaints():
        _complain(complaint)
    path = os.environ.get(CONFIG_FILE, "").strip()
    if path and _configure_from_file(path):
        process_exit.register(None)
        return
    from otel_rl.ending import forks  # noqa: PLC0415
    from otel_rl.pipeline import exporter_selection, providers, resource  # noqa: PLC0415
    from otel_rl.process import launcher_environment  # noqa: PLC0415
    from otel_rl.telemetry import self_metrics  # noqa: PLC0415

    chosen = exporter_selection.choose(os.environ)
    for complaint in chosen.complaints:
        _complain(complaint)
    service = launcher_environment.service_name(os.environ, child_processes.original_arguments())
    _telemetry = providers.build(chosen, resource.create(service))
    self_metrics.register()
    process_exit.register(_telemetry)
    forks.register(_telemetry)


def _complain(line: str) -> None:
    """All processes of the launch read the same variables: the leading one says it."""
    from otel_rl.process import process_identity  # noqa: PLC0415 - none of this where nothing is set up

    if process_identity.current().leads:
        stderr.write_line(line)


def _configure_from_file(path: str) -> bool:
    """Let upstream's loader set everything up; False (and one line that says why) where it cannot."""
    try:
        from opentelemetry.configuration import configure_sdk, load_config_file  # noqa: PLC0415 - an optional package
    except ImportError:
        _complain(
            f"otel-rl: {CONFIG_FILE} is set but opentelemetry-configuration is not installed"
            " (pip install opentelemetry-configuration); going by the other variables"
        )
        return False
    try:
        configure_sdk(load_config_file(path))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the file, the program runs
        reason = str(error).strip().splitlines() or [type(error).__name__]
        _complain(f"otel-rl: {CONFIG_FILE}={path} cannot be used ({reason[0]}); going by the other variables")
        return False
    from otel_rl.pipeline import config_file  # noqa: PLC0415

    config_file.complete_providers()
    return True
