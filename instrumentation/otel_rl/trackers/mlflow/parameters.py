"""The parameters and tags of a run: what the program is, and of which run of ours it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_rl.process import process_identity
from otel_rl.semconv import attributes
from otel_rl.telemetry import run_parts
from otel_rl.trackers.mlflow.lookups import RUN_ID_TAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

_ATTEMPT_TAG = "otel_rl.attempt"
STEP_TAG, TRACE_TAG = "otel_rl.last_step", "otel_rl.last_step.trace_id"
#: Most parameters, and most tags, that a server takes in one request, and most characters of their texts.
MOST, LONGEST_PARAMETER, LONGEST_TAG = 100, 6000, 8000
#: An option with its value: ``--name=value``, or ``name=value`` as Hydra has it.
_ASSIGNED = re.compile(r"(?:--?|\+{0,2})(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
_OPTION = re.compile(r"--(?P<name>[A-Za-z_][\w.-]*)")


def tags() -> dict[str, str]:
    """Return the tags by which a run of MLflow is found from one of ours."""
    identity = process_identity.current()
    return {RUN_ID_TAG: str(identity.id), _ATTEMPT_TAG: identity.attempt}


def tags_of_new_run() -> dict[str, str]:
    """Return the tags of a run that we make: also those that MLflow's own client would set."""
    facts = run_parts.facts()
    arguments = facts.get(attributes.PROCESS_COMMAND_ARGS) or ()
    named = {
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": next(iter(arguments), ""),
        "mlflow.source.git.commit": str(facts.get(attributes.VCS_REF_HEAD_REVISION) or ""),
    }
    return {**tags(), **{key: text for key, text in named.items() if text}}


def collect() -> dict[str, str]:
    """Return the arguments of the program, without secrets, and the versions of its libraries; by key."""
    facts = run_parts.facts()
    arguments = facts.get(attributes.PROCESS_COMMAND_ARGS) or ()
    versions = (text.partition(" ") for text in facts.get(attributes.RL_RUN_LIBRARY_VERSIONS) or ())
    known = {f"version/{name}": version for name, _, version in versions}
    known.update(_options(arguments))
    if arguments:
        known["command"] = " ".join(arguments)
    return known


def with_settings(known: Mapping[str, str], configured: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return ``known`` parameters and settings of the program, given as pairs of their source and the settings.

    A parameter never changes, so that the first value of a setting counts. What another source, or the command line,
    has otherwise under the same name comes with its source before it.
    """
    of_names = {name: ("", value) for name, value in known.items()}
    others: dict[str, str] = {}
    for source, settings in configured:
        for name, setting in settings.items():
            first, value = of_names.setdefault(name, (source, str(setting)))
            if first != source and value != str(setting):
                others.setdefault(f"{source}/{name}", str(setting))
    return {**others, **{name: value for name, (_, value) in of_names.items()}}


def _options(arguments: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return the options of a command line with their values; one without a value is switched on."""
    waiting = ""
    for argument in arguments:
        option, assigned = _OPTION.fullmatch(argument), _ASSIGNED.fullmatch(argument)
        if waiting:
            yield waiting, "true" if option or assigned else argument
        waiting = option["name"] if option else ""
        if assigned and not option:
            yield assigned["name"], assigned["value"]
    if waiting:
        yield waiting, "true"


def as_list(texts: Mapping[str, str], longest: int = LONGEST_TAG) -> list[dict[str, str]]:
    """Return key and value of each as MLflow's requests have them, cut where it would cut them without a word."""
    return [{"key": key, "value": text[:longest]} for key, text in texts.items()]
