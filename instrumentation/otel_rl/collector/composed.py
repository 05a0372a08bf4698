"""Composes one checked configuration file from a selection."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_rl.collector import binary
from otel_rl.collector.checks import components, host, listeners, structure, wire
from otel_rl.collector.errors import Refused
from otel_rl.collector.parts import listen_address, merge
from otel_rl.collector.parts.choices import sources
from otel_rl.collector.parts.files import ConfigurationPart
from otel_rl.collector.parts.variables import put_in
from otel_rl.core import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_rl.collector.parts.choices import Selection

_NAME = re.compile(r"^\S+\.yaml(?: \([^)]*\))?: ")
"""Start of the comment at the top of a file: the file's name and its roles."""


@dataclass(frozen=True)
class Composed:
    """A configuration that passed the checks.

    Attributes:
        text: one YAML document; the collector puts the variables in when it starts.
        values: the same as plain values, with the variables of this machine put in; for another machine they stay.
        warnings: what works and may not be meant; for another machine nothing.
    """

    text: str
    values: Mapping[str, Any]
    warnings: Sequence[str] = ()


def compose(selection: Selection, environ: Mapping[str, str] | None) -> Composed:
    """Merge the parts of a selection and check the result.

    Args:
        selection: what was chosen.
        environ: variables of this machine, on which it shall run; None for another machine.

    Raises:
        Refused: it cannot work; one line for each reason.
    """
    parts = listen_address.written_in(sources(selection), environ)
    configuration = merge.merge(parts)
    values = configuration if environ is None else put_in(configuration, environ)
    problems = [*structure.problems(configuration), *wire.inline_secrets(configuration)]
    if environ is not None:
        problems += host.problems(configuration, values, environ)
        problems += wire.plaintext(values, encrypted="tls" in selection.options)
    refuse(problems)
    flat = merge.flatten(parts)
    refuse(_lost_in_text(selection, flat, configuration))
    text = "\n".join([*_header(selection, parts), "", flat])
    return Composed(text, values, [] if environ is None else listeners.open_to_all(values))


def _lost_in_text(selection: Selection, flat: str, configuration: Mapping[str, Any]) -> list[str]:
    """Report a text that lost something: it is merged line by line, for which a file may be written too freely."""
    with suppress(Refused):
        if not selection.files or merge.merge([ConfigurationPart("the composed text", flat)]) == configuration:
            return []
    names = ", ".join(map(str, selection.files))
    return [f"--with-file {names}: cannot be merged as text; write every value out, without anchors and aliases"]


def validate(text: str, environ: Mapping[str, str]) -> str:
    """Validate the text with otelcol-rl; return a message for the user when that was impossible, else "".

    Raises:
        Refused: the program does not accept it.
    """
    program = binary.find_program(environ)
    if program is None:
        return f"otelcol-rl was not found, so only the checks of this command ran; {binary.HOW_TO_GET_IT}"
    with tempfile.TemporaryDirectory(prefix="otel-rl-collector-") as folder:
        file = Path(folder) / "configuration.yaml"
        write_private(file, text)
        said = binary.validate(program, file)
    if said:
        raise Refused(f"{program.name} does not accept this configuration: {said}")
    return ""


def refuse(problems: Sequence[str]) -> None:
    """Raise Refused when there are problems.

    Raises:
        Refused: with one line for each.
    """
    if problems:
        raise Refused("\n".join(dict.fromkeys(problems)))


def write_private(file: Path, text: str) -> None:
    """Write a file that only this user can read, replacing any old content.

    Raises:
        Refused: it cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            os.fchmod(opened.fileno(), 0o600)
            opened.write(text)
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}; choose another file") from None


def _header(selection: Selection, parts: Sequence[ConfigurationPart]) -> list[str]:
    ours, core = components.versions()
    lines = [
        "Configuration of otelcol-rl, written by",
        f"  otel-rl collector config {selection.arguments()}",
        f"otel-rl {__version__}, otelcol-rl {ours}, OpenTelemetry Collector {core}.",
        "Change the files and write it anew, rather than this file.",
        "",
        "Made of these parts, each adding to those above it:",
    ]
    for part in parts:
        first, *rest = merge.heading(part) or [""]
        lines += [f"  {part.name}: {_NAME.sub('', first)}", *(f"    {line}" for line in rest)]
    return [f"# {line}".rstrip() for line in lines]
