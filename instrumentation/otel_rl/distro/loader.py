"""Loads instrumentors, ours and others': each for itself, and when the library it instruments is imported.

Upstream's loader imports all of them in every process, checks and hooks outside of any isolation, and stops at the
first one that raises. This one takes its place; its outcomes are in :mod:`otel_rl.core.instrumentor_status`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.util._importlib_metadata import entry_points

from otel_rl.core import instrumentor_status, settings
from otel_rl.core.guard import guard
from otel_rl.core.import_hooks import hooks
from otel_rl.distro.own_triggers import GENERAL_PURPOSE, TRIGGERS
from otel_rl.distro.trigger_modules import TARGETS
from otel_rl.store.writer import process_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from opentelemetry.util._importlib_metadata import EntryPoint

GROUP = "opentelemetry_instrumentor"
DISABLED = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
_OURS = "otel_rl_"
#: Instrumentors of libraries that say nothing of what a program does: importing them does not make it a job.
_OF_ANY_PROGRAM = frozenset(
    {*GENERAL_PURPOSE, *(f"otel_rl_{name}" for name in ("mlflow", "safetensors", "swanlab", "tensorboard"))}
    | {f"otel_rl_{name}" for name in ("tensorboardx", "trackio", "wandb")}
)
#: Of several owners of one library the official one is kept; ours enriches it.
_PREFERRED = "opentelemetry-instrumentation-"

#: opentelemetry-instrumentation-logging adds fields to each log record, and from 0.61 on a handler to the root logger
#: (``LoggingInstrumentor._instrument``): then ``logging.warning`` prints nothing, and the program's log is recorded.
_LOGGING = "logging"
_ASK_FOR_LOG_HANDLER = ("OTEL_PYTHON_LOG_AUTO_INSTRUMENTATION", "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED")
_ASK_FOR_LOGGING = (*_ASK_FOR_LOG_HANDLER, "OTEL_PYTHON_LOG_CORRELATION")
_WHY_NO_LOGGING = (
    "it would change what the program logs; OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED=true records the log, "
    "OTEL_PYTHON_LOG_CORRELATION=true adds trace ids to it"
)


def load_instrumentors(environ: Mapping[str, str] = os.environ) -> None:
    """Load what is installed and not disabled; never raises."""
    with guard("loader"):
        _run_hooks("opentelemetry_pre_instrument")
        disabled = {name.strip() for name in environ.get(DISABLED, "").split(",")}
        kept, rejected = _one_owner_each(entry_points(group=GROUP))
        instrumentor_status.declare_general_purpose(GENERAL_PURPOSE)
        for entry_point, owner in rejected:
            reason = f"{entry_point.name} is instrumented by {owner} already; uninstall one of the two"
            instrumentor_status.report(
                f"{entry_point.name} ({_distribution(entry_point)})", instrumentor_status.SKIPPED, reason
            )
        for entry_point in kept:
            if disabled & {"*", entry_point.name}:
                instrumentor_status.report(entry_point.name, instrumentor_status.SKIPPED, f"disabled by {DISABLED}")
            elif reason := why_unwanted(entry_point.name, environ):
                instrumentor_status.report(entry_point.name, instrumentor_status.SKIPPED, reason)
            else:
                _load_when_needed(entry_point)
        _record_named_functions(disabled)
        _run_hooks("opentelemetry_post_instrument")


def why_unwanted(name: str, environ: Mapping[str, str]) -> str:
    """Return why an instrumentor is not loaded although the user has not switched it off; empty where it is."""
    return _WHY_NO_LOGGING if name == _LOGGING and not _is_wanted(environ, *_ASK_FOR_LOGGING) else ""


def _is_wanted(environ: Mapping[str, str], *variables: str) -> bool:
    return any(environ.get(variable, "").strip().lower() == "true" for variable in variables)


def _record_named_functions(disabled: set[str]) -> None:
    chosen = settings.current()
    if not (chosen.rollout_functions or chosen.reward_functions):
        return
    name = f"{_OURS}functions"
    if disabled & {"*", name}:
        instrumentor_status.report(name, instrumentor_status.SKIPPED, f"disabled by {DISABLED}")
        return
    _isolated(name, _load_named_functions)


def _load_named_functions() -> None:
    from otel_rl.instrumentors.named_functions import (  # noqa: PLC0415 - where the user names some
        NamedFunctionsInstrumentor,
    )

    NamedFunctionsInstrumentor().instrument(skip_dep_check=True)


def _run_hooks(group: str) -> None:
    for entry_point in entry_points(group=group):
        _isolated(entry_point.name, lambda entry_point=entry_point: entry_point.load()())


def _one_owner_each(installed: Iterable[EntryPoint]) -> tuple[list[EntryPoint], list[tuple[EntryPoint, str]]]:
    """Keep one of several distributions that claim the same name: two would record every call twice."""
    owners: dict[str, EntryPoint] = {}
    rejected = []
    for entry_point in sorted(
        installed, key=lambda point: (not _distribution(point).startswith(_PREFERRED), _distribution(point))
    ):
        owner = owners.setdefault(entry_point.name, entry_point)
        if owner is not entry_point and owner.value != entry_point.value:
            rejected.append((entry_point, _distribution(owner)))
    return sorted(owners.values(), key=lambda point: point.name), rejected


def _distribution(entry_point: EntryPoint) -> str:
    distribution = getattr(entry_point, "dist", None)
    return str(distribution.name) if distribution is not None else entry_point.value.partition(":")[0]


def _load_when_needed(entry_point: EntryPoint) -> None:
    ours = entry_point.name.startswith(_OURS)
    modules = _triggers(entry_point) if ours else TARGETS.get(entry_point.name)
    if modules is None:
        activate(entry_point)
        return
    if not modules:
        # The class could not be loaded, which has been reported.
        return
    # Of ours the last one is the library, the others are its modules.
    awaited = modules[-1:] if ours else modules
    instrumentor_status.report(
        entry_point.name, instrumentor_status.WAITING, f"{' or '.join(awaited)} not imported yet"
    )
    waiting = _WaitingInstrumentor(entry_point)
    for module in modules:
        hooks.after_import(module, waiting.imported)
    if ours and entry_point.name not in _OF_ANY_PROGRAM:
        hooks.after_import(modules[-1], _show_presence)


def _show_presence(_: ModuleType) -> None:
    from otel_rl.distro import configurator  # noqa: PLC0415 - few programs come here
    from otel_rl.pipeline import presence  # noqa: PLC0415 - likewise

    telemetry = configurator.telemetry()
    if telemetry is not None:
        presence.show(telemetry)


class _WaitingInstrumentor:
    """An instrumentor that the first import of one of its modules activates, once."""

    def __init__(self, entry_point: EntryPoint) -> None:
        self._entry_point: EntryPoint | None = entry_point

    def imported(self, _: ModuleType) -> None:
        entry_point, self._entry_point = self._entry_point, None
        if entry_point is not None:
            activate(entry_point)


def _triggers(entry_point: EntryPoint) -> tuple[str, ...]:
    """Look into the table, which costs no import; an instrumentor that is not in it is imported."""
    known = TRIGGERS.get(entry_point.name)
    if known is not None:
        return known
    modules: list[str] = []
    _isolated(entry_point.name, lambda: modules.extend(entry_point.load().triggers()))
    return tuple(modules)


def activate(entry_point: EntryPoint) -> None:
    """Load and instrument one instrumentor now; whatever it raises is reported, not raised."""
    instrumentor_status.report(entry_point.name, instrumentor_status.SKIPPED, "being loaded")
    _isolated(entry_point.name, partial(_activate, entry_point))


def _activate(entry_point: EntryPoint) -> None:
    from opentelemetry.instrumentation.dependencies import (  # noqa: PLC0415 - needed with the first library only
        get_dependency_conflicts,
        get_dist_dependency_conflicts,
    )

    distribution = getattr(entry_point, "dist", None)
    conflict = get_dist_dependency_conflicts(distribution) if distribution is not None else None
    if conflict is None:
        instrumentor = entry_point.load()()
        conflict = get_dependency_conflicts(instrumentor.instrumentation_dependencies())
    if conflict is not None:
        _skip(entry_point.name, conflict)
        return
    options = {}
    if entry_point.name == _LOGGING and not _is_wanted(os.environ, *_ASK_FOR_LOG_HANDLER):
        options = {"enable_log_auto_instrumentation": False}
    instrumentor.instrument(skip_dep_check=True, **options)
    if not entry_point.name.startswith(_OURS):
        # Ours report for themselves, since they know whether a patch found its target.
        instrumentor_status.report(entry_point.name, instrumentor_status.ACTIVE)


def _skip(name: str, conflict: Any) -> None:
    required = conflict.required or ", ".join(map(str, conflict.required_any or ()))
    installed = conflict.found or ", ".join(map(str, getattr(conflict, "found_any", None) or ()))
    if not installed:
        instrumentor_status.report(name, instrumentor_status.SKIPPED, f"needs {required}, which is not installed")
        return
    reason = f"supports {required}, installed is {installed}"
    instrumentor_status.report(name, instrumentor_status.SKIPPED, reason)
    process_store.warn_once_per_node(f"otel-rl: {name} {reason}; not instrumented, the program runs on")


def _isolated(name: str, call: Any) -> None:
    try:
        call()
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        instrumentor_status.report(
            name, instrumentor_status.SKIPPED, f"needs module {error.name}, which is not installed"
        )
    except BaseException as error:  # SystemExit and worse from foreign code must not end the program
        instrumentor_status.report(name, instrumentor_status.FAILED, f"{type(error).__name__}: {error}")
        if name.startswith(_OURS) and isinstance(error, Exception):
            with guard(f"loader.{name}"):
                raise
