"""The files that OpenTelemetry's variables name for TLS: can this user read them?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.pipeline import exporter_selection

if TYPE_CHECKING:
    from collections.abc import Mapping

_AUTHORITY = "CERTIFICATE"
_FIX = "correct the path, or make the file readable for this user"
_KINDS = (_AUTHORITY, "CLIENT_CERTIFICATE", "CLIENT_KEY")


def unreadable(
    environ: Mapping[str, str], signals: Mapping[str, list[dict[str, str]]]
) -> dict[tuple[str, str], list[str]]:
    """Signal and exporter -> one sentence for each file that it needs and cannot read; OTLP exporters only."""
    problems: dict[tuple[str, str], list[str]] = {}
    for signal, exporters in signals.items():
        for name in (exporter["exporter"] for exporter in exporters):
            sentences = _sentences(environ, signal, name) if name.startswith("otlp") else []
            if sentences:
                problems[signal, name] = sentences
    return problems


def _sentences(environ: Mapping[str, str], signal: str, exporter: str) -> list[str]:
    sentences = []
    for kind in _KINDS:
        variable = _variable(environ, signal, kind)
        if variable is None:
            continue
        path = Path(environ[variable])
        # ``requests`` takes a folder of authorities too.
        takes_folder = kind == _AUTHORITY and exporter != exporter_selection.OTLP_GRPC
        reason = "" if takes_folder and path.is_dir() else _why_unreadable(path)
        if reason:
            sentences.append(f"{variable}={path} cannot be read ({reason}); {_FIX}")
    return sentences


def _variable(environ: Mapping[str, str], signal: str, kind: str) -> str | None:
    """Return the name that counts: the signal's own, else the one of all signals."""
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_{kind}", f"OTEL_EXPORTER_OTLP_{kind}")
    return next((name for name in names if environ.get(name)), None)


def _why_unreadable(path: Path) -> str:
    try:
        with path.open("rb"):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__
