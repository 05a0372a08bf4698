"""The program's settings as the leading process knows them: one event per source, and one for what has changed since.

Trainers, trackers and frameworks hand in what they were configured with. On the caller's thread settings become plain
values; what looks like a secret is removed on an I/O thread, once it is known whether this process leads.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from otel_rl.core import clock, settings
from otel_rl.process import process_identity, program_facts
from otel_rl.semconv import attributes, events
from otel_rl.semconv.attributes import RlTelemetrySignalValues as Signal
from otel_rl.telemetry import Scope, deferral, drops, guard, lifecycle, redaction, run_span
from otel_rl.telemetry.attribute_values import MAXIMUM_KEY_LENGTH, PlainBody, plain, text
from otel_rl.training.step_subscribers import StepSubscribers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_scope = Scope("run")
#: Most sources, and settings of each.
MAXIMUM_SOURCES, MAXIMUM_SETTINGS = 16, 256
#: Most characters of a value, and of all values of a record: Loki takes lines of 256 kB.
MAXIMUM_VALUE, MAXIMUM_CHARACTERS = 1024, 100_000
#: Most records of a process: a tracker's configuration may change at every step.
MAXIMUM_RECORDS = 64
#: Why settings are not recorded.
LIMIT = "configuration_limit"

Setting = str | int | float | bool | None

#: Called with the source and the settings of each record, mostly on an I/O thread.
listeners: StepSubscribers[Callable[[str, Mapping[str, Setting]], None]] = StepSubscribers()


class _Configurations:
    """What each source has said, and what of it waits for a record.

    Whoever holds ``lock`` calls nothing that waits. A signal handler may come while its own thread holds it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known: dict[str, dict[str, Any]] = {}
        self.waiting: dict[str, dict[str, Any]] = {}
        #: Settings of a source that had no room.
        self.left_out: dict[str, set[str]] = {}
        self.records = 0


_all = _Configurations()


def record_configuration(source: str, configuration: object) -> None:
    """Record settings of the program, where this process leads the run; never raises.

    Nested settings get the names of all levels, joined by dots. What looks like a secret is removed. Of settings that a
    source gives again only those that have changed are recorded. With ``OTEL_RL_ARGUMENTS=off`` nothing is.

    Args:
        source: who knows the settings, e.g. ``trl`` or ``wandb``.
        configuration: settings by name: a mapping, a data class, or a model of pydantic or attrs.
    """
    with guard("training.configuration"):
        if not _scope.enabled or settings.current().arguments != "on" or _is_known_not_to_lead():
            return
        # Code of the program may run here, so not with the lock.
        given = plain(configuration)
        if not isinstance(given, dict):
            drops.count(Signal.LOGS, "unsupported_type")
            return
        with _all.lock:
            is_awaited = _merge(source, _flat(given))
        if is_awaited:
            _post()


def known() -> dict[str, Setting]:
    """Return the settings so far as they may be shown, by ``source.name``."""
    with _all.lock:
        settings_of = {source: settings.copy() for source, settings in _all.known.items()}
    return {f"{source}.{name}": _shown(name, value) for source, of in settings_of.items() for name, value in of.items()}


def _merge(source: str, flat: Iterable[tuple[str, Any]]) -> bool:
    """Add what is new or has changed to what waits; return whether anything waits."""
    if source not in _all.known and len(_all.known) >= MAXIMUM_SOURCES:
        drops.count(Signal.LOGS, LIMIT)
        return False
    known, waiting = _all.known.setdefault(source, {}), _all.waiting.setdefault(source, {})
    left_out = _all.left_out.setdefault(source, set())
    for name, value in flat:
        if name not in known and len(known) >= MAXIMUM_SETTINGS:
            if len(left_out) < MAXIMUM_SETTINGS:
                left_out.add(name)
        elif name not in known or known[name] != value:
            known[name] = waiting[name] = value
    return bool(waiting)


def _is_known_not_to_lead() -> bool:
    return process_identity.settled() and not process_identity.current().leads_training


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values of all levels; an empty mapping is a value."""
    if isinstance(value, dict) and (value or not name):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    else:
        yield text(name, MAXIMUM_KEY_LENGTH), value


def _post() -> None:
    lifecycle.before_shutdown(_record_all)
    process_identity.add_listener(_identity_known)
    deferral.post(Signal.LOGS, _record)


def _identity_known(_: process_identity.ProcessIdentity) -> None:
    if _all.waiting and process_identity.settled():
        deferral.post(Signal.LOGS, _record)


def _record() -> None:
    """Record what waits, once it is known whether this process leads; at the end the callback of the shutdown does."""
    if process_identity.settled() and not lifecycle.is_ending:
        _record_all()


def _record_all() -> None:
    with _all.lock:
        waiting, _all.waiting = _all.waiting, {}
    if not process_identity.current().leads_training:
        return
    for source, changed in waiting.items():
        if not changed:
            continue
        if _all.records >= MAXIMUM_RECORDS:
            drops.count(Signal.LOGS, LIMIT)
            continue
        _all.records += 1
        body, left_out = _body(changed)
        run_span.own_records[Signal.LOGS] += 1
        further = {
            attributes.RL_RUN_CONFIGURATION_SOURCE: source,
            attributes.RL_RUN_CONFIGURATION_LEFT_OUT: left_out + len(_all.left_out.get(source, ())) or None,
        }
        run_span.emit(events.RL_RUN_CONFIGURATION, clock.now(), further, body)
        for listener in tuple(listeners.callbacks):
            with guard("training.configuration.listener"):
                listener(source, body)


def _body(changed: Mapping[str, Any]) -> tuple[PlainBody, int]:
    """Return the settings as they may be recorded, and how many had no room."""
    body, characters = PlainBody(), 0
    for name, value in changed.items():
        shown = _shown(name, value)
        characters += len(name) + len(shown if isinstance(shown, str) else str(shown))
        if characters > MAXIMUM_CHARACTERS:
            break
        body[name] = shown
    body.characters = characters
    return body, len(changed) - len(body)


def _shown(name: str, value: Any) -> Setting:
    if isinstance(value, list | dict):
        value = json.dumps(program_facts.structure(value), ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return value
    given = text(str(value), MAXIMUM_VALUE)
    shown = program_facts.setting(name, given, lambda found: redaction.text(found, Signal.LOGS))
    is_unchanged_number = shown == given and not isinstance(value, str)
    return value if is_unchanged_number else shown


def _forget() -> None:
    """Forget the parent's: they are its own."""
    global _all
    _all = _Configurations()


lifecycle.after_fork_in_child(_forget)
