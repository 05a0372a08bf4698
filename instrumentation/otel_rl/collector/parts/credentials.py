"""The generated last part: the credential files to check before a start, and the extensions to start.

Every part names its files where they are used. Lists are replaced when parts merge, so no part could add its files or
its extension to a list of another one: both lists are made here, from all parts.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from otel_rl.collector.parts.files import ConfigurationPart
from otel_rl.collector.parts.merge import leaves, merge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXTENSION = "credential_files"
NAME = "credential files and extensions"

_KINDS = {
    "cert_file": "certificates",
    "ca_file": "authorities",
    "client_ca_file": "authorities",
    "key_file": "keys",
    "password_file": "secrets",
    "credentials_file": "secrets",
    "value_file": "secrets",
}
_OF_AUTHENTICATORS = {("bearertokenauth", "filename"): "secrets", ("basicauth", "file"): "secrets"}
_NEVER_EMPTY = "client_ca_file"
"""Empty, it switches the check of client certificates off."""
_SECRETS = "secrets"
"""Where one is asked for, it has to be there: an option leaves its path to a file of the site."""
_VARIABLE = re.compile(r"\$\{env:(?P<name>\w+)(?P<default>:-[^{}]*)?\}")


def generated(parts: Sequence[ConfigurationPart]) -> list[ConfigurationPart]:
    """Return the part for the files and extensions that these parts name; nothing where there is nothing to add.

    Raises:
        Refused: one of the parts is not YAML.
    """
    merged = merge(parts)
    files = _files(merged)
    lines = _checked(files)
    started = list((merged.get("service") or {}).get("extensions") or [])
    defined = [*(merged.get("extensions") or {}), *([EXTENSION] if lines else [])]
    missing = sorted(name for name in defined if name not in started)
    if missing:
        lines += ["", "service:", f"  extensions: [{', '.join([*started, *missing])}]"]
    return [ConfigurationPart(NAME, "\n".join([_HEADING, *lines, ""]))] if lines else []


_HEADING = "# Files that are looked at before anything starts, and the extensions of all parts."


def _files(merged: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, str]]:
    """Return the settings that name files, by need and kind: the variable or the path of the setting, and the value."""
    files: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for section, components in merged.items():
        for component, settings in (components or {}).items() if section != "service" else []:
            if component == EXTENSION:
                continue
            for path, key, value in leaves(settings, f"{section}.{component}"):
                kind = _KINDS.get(key) or _OF_AUTHENTICATORS.get((component.partition("/")[0], key))
                if kind and isinstance(value, str | None):
                    variable = _VARIABLE.fullmatch(value or "")
                    left_open = not value and kind != _SECRETS
                    empty = left_open or (variable is not None and variable["default"] == ":-")
                    need = "optional" if empty and key != _NEVER_EMPTY else "required"
                    files[need, kind][variable["name"] if variable else path] = value or ""
    return files


def _checked(files: Mapping[tuple[str, str], Mapping[str, str]]) -> list[str]:
    lines = []
    for need in ("required", "optional"):
        kinds = {kind: named for (of, kind), named in files.items() if of == need}
        lines += [f"    {need}:"] if kinds else []
        for kind, named in kinds.items():
            lines += [f"      {kind}:", *(f"        {_key(name)}: {json.dumps(path)}" for name, path in named.items())]
    return ["extensions:", f"  {EXTENSION}:", *lines] if lines else []


def _key(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else json.dumps(name)
