"""Substitutes variables like the collector does: ``${env:NAME}`` and ``${env:NAME:-default}``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$\$|\$\{env:(?P<name>\w+)(?P<otherwise>:-(?P<default>[^{}]*))?\}")


def without_value(configuration: Any, environ: Mapping[str, str]) -> list[str]:
    """Names of the variables that have no default here and are not set, or are set to nothing, in order."""
    missing = [
        match["name"]
        for text in _texts(configuration)
        for match in _VARIABLE.finditer(text)
        if match["name"] and match["otherwise"] is None and not environ.get(match["name"], "").strip()
    ]
    return list(dict.fromkeys(missing))


def names_in(configuration: Any) -> dict[str, str]:
    """Map every variable that is read to its default, "" when it has none."""
    matches = (match for text in _texts(configuration) for match in _VARIABLE.finditer(text))
    return {match["name"]: match["default"] or "" for match in matches if match["name"]}


def put_in(value: Any, environ: Mapping[str, str]) -> Any:
    """Return the value with its variables replaced; one that is a variable alone gets the type that it has in YAML."""
    if isinstance(value, dict):
        return {key: put_in(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [put_in(item, environ) for item in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    text = _VARIABLE.sub(lambda match: _value_of(match, environ), value)
    return typed(text) if _VARIABLE.fullmatch(value) else text


def _value_of(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if not match["name"]:
        return "$"
    return environ.get(match["name"], match["default"] or "")


def typed(text: str) -> Any:
    """Parse the text as YAML; return the text itself if it is not YAML."""
    try:
        return YAML(typ="safe").load(text)
    except YAMLError:
        return text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
