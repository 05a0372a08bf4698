"""Which units a metric may have.

UCUM (https://ucum.org) is a grammar over some three hundred atoms. No library for it is both maintained and small, and
a registry that accepts every atom lets `S` (siemens) pass for seconds; so this is UCUM's grammar over the few atoms
that telemetry of training needs. A new atom is one more word in the tables.
"""

from __future__ import annotations

import re

_METRIC_ATOMS = frozenset({"s", "By", "bit", "g", "m", "J", "W", "Hz", "V", "A", "K", "Cel"})
_OTHER_ATOMS = frozenset({"1", "%", "min", "h", "d"})
_PREFIXES = frozenset({"n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"})
_ANNOTATION = re.compile(r"\{[!-z|~]+\}")
_COMPONENT = re.compile(r"(?P<symbol>[A-Za-z%]+|1)(?P<exponent>[+-]?[1-9])?(?P<annotation>\{[!-z|~]+\})?")


def is_unit(text: str) -> bool:
    """Return whether `text` is a unit: atoms or annotations such as `{step}`, joined by `.` and `/`."""
    return all(_is_component(component) for component in re.split(r"[./](?![^{]*\})", text))


def _is_component(text: str) -> bool:
    if _ANNOTATION.fullmatch(text):
        return True
    match = _COMPONENT.fullmatch(text)
    if match is None or (match["symbol"] == "1" and match["exponent"]):
        return False
    return match["symbol"] in _OTHER_ATOMS or any(
        match["symbol"] == prefix + atom for prefix in ("", *_PREFIXES) for atom in _METRIC_ATOMS
    )
