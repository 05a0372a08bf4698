"""A site's own parts, ``--with-file FILE``: read, checked, and brought into the layout that merging needs."""

from __future__ import annotations

import io
from copy import deepcopy
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from otel_rl.collector.errors import Refused
from otel_rl.collector.parts import gateways
from otel_rl.collector.parts.files import ConfigurationPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_SECTIONS = ("extensions", "receivers", "processors", "connectors", "exporters", "service")
_ENDLESS = 1_000_000


def own(file: Path, number_of_gateways: int) -> list[ConfigurationPart]:
    """Return the part in a file of the site's own, after a copy of its settings of the first gateway for the others.

    The address of a gateway is not copied, and the file itself may name other settings for one of the others.

    Raises:
        Refused: it cannot be read, there is nothing in it, or it is no part of a configuration.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
        raise Refused(f"--with-file {file} cannot be read ({reason}); correct the path or the file") from None
    writer, tidy = YAML(), io.StringIO()
    writer.preserve_quotes = True
    writer.width = _ENDLESS
    try:
        tree = writer.load(text)
        writer.dump(tree, tidy)
    except YAMLError as error:
        raise Refused(f"--with-file {file} is not YAML: {_reason(error)}; correct it") from None
    if tree is None:
        raise Refused(f"--with-file {file} is empty; write a part of a configuration into it, or leave it out")
    if problems := list(_problems(tree)):
        raise Refused("\n".join(f"--with-file {file}: {problem}" for problem in problems))
    part = ConfigurationPart(str(file), tidy.getvalue().removesuffix("...\n"))
    return [*_for_other_gateways(part.name, tree, number_of_gateways), part]


def _for_other_gateways(name: str, tree: Mapping[str, Any], number_of_gateways: int) -> list[ConfigurationPart]:
    settings = (tree.get("exporters") or {}).get(gateways.TEMPLATE) or {}
    shared = {key: value for key, value in settings.items() if key != "endpoint"}
    if not shared or number_of_gateways == 1:
        return []
    writer, text = YAML(), io.StringIO()
    writer.width = _ENDLESS
    exporters = {gateways.exporter(number): deepcopy(shared) for number in range(2, number_of_gateways + 1)}
    writer.dump({"exporters": exporters}, text)
    heading = f"# {name} for the other gateways: the same as for the first, but for its address.\n"
    return [ConfigurationPart(f"{name} --gateways {number_of_gateways}", heading + text.getvalue())]


def _reason(error: YAMLError) -> str:
    """Return the place and the reason, without the values that stand there: one may be a secret."""
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return place + str(getattr(error, "problem", None) or "it cannot be read").partition(" with value")[0]


def _problems(tree: Any) -> Iterator[str]:
    if not isinstance(tree, dict):
        yield "its top level is no map; begin with exporters: or another section"
        return
    for section, content in tree.items():
        if section not in _SECTIONS:
            near = get_close_matches(str(section), _SECTIONS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_SECTIONS)}"
            yield f"no section is named {section}; {hint}"
        elif section == "service":
            yield from _service(content)
        else:
            yield from _maps(section, content)


def _maps(path: str, content: Any) -> Iterator[str]:
    """Report components and pipelines that are no names with settings."""
    if not isinstance(content, dict):
        yield f"{path} is no map; write names and their settings below it"
        return
    for name, settings in content.items():
        if not isinstance(name, str) or not isinstance(settings, dict | None):
            yield f"{path}.{name} is no name with a map of settings; correct it"


def _service(service: Any) -> Iterator[str]:
    if not isinstance(service, dict):
        yield "service is no map; write pipelines: below it"
        return
    lists = {"service.extensions": service.get("extensions", [])}
    pipelines = service.get("pipelines", {})
    yield from _maps("service.pipelines", pipelines)
    for name, pipeline in pipelines.items() if isinstance(pipelines, dict) else []:
        for kind, members in pipeline.items() if isinstance(pipeline, dict) else []:
            lists[f"service.pipelines.{name}.{kind}"] = members
    for path, members in lists.items():
        if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
            yield f"{path} is no list of names; correct it"
