"""Start otelcol-rl in the foreground with a composed configuration."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from otel_rl.collector import binary, composed, data_folder
from otel_rl.collector.checks import host
from otel_rl.collector.errors import Refused
from otel_rl.collector.parts import credentials
from otel_rl.collector.parts.merge import leaves
from otel_rl.core import addresses

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from otel_rl.collector.parts.choices import Selection


def start(selection: Selection, environ: Mapping[str, str]) -> int:
    """Replace this process by the collector (exec), so signals, exit code and process id are the collector's.

    Raises:
        Refused: it cannot work or cannot start; one line for each reason.
    """
    variables = data_folder.for_this_start(selection, environ)
    configuration = composed.compose(selection, variables)
    composed.refuse(host.start_problems(configuration.values))
    program = binary.find_program(environ)
    if program is None:
        raise Refused(f"otelcol-rl was not found; {binary.HOW_TO_GET_IT}")
    if credentials.EXTENSION in (configuration.values.get("extensions") or {}):
        composed.validate(configuration.text, environ)  # it reads certificates, which Python's standard library cannot
    _make_folders_of_targets(configuration.values)
    file = _runtime_folder(environ) / f"{selection.role}-{os.getpid()}.yaml"
    composed.write_private(file, configuration.text)
    warnings = [f"warning: {warning}" for warning in configuration.warnings]
    own = variables.get(host.DATA_DIRECTORY, "") if variables != environ else ""
    where = data_folder.in_words(configuration.values, own)
    for line in [*warnings, *_first_lines(selection, configuration.values, file), *where]:
        print(f"otel-rl collector: {addresses.without_secrets(line)}", file=sys.stderr)  # noqa: T201 - a foreground command
    sys.stderr.flush()
    command = [str(program), "--config", str(file)]
    os.umask(0o077)  # the collector's files hold what it is there to protect: for this user only
    try:
        os.execve(program, command, {**_memory_limit(configuration.values), **variables})  # noqa: S606  (no shell is wanted)
    except OSError as error:
        raise Refused(f"{program} cannot be started: {error.strerror}; {binary.HOW_TO_GET_IT}") from None


def _make_folders_of_targets(actual: Mapping[str, Any]) -> None:
    """Make the folders in which jobs list their engines: discovery logs a missing folder as an error every 30 s."""
    for path, _, patterns in leaves(actual.get("receivers")):
        if path.endswith(".file_sd_configs.files"):
            for pattern in patterns:
                with suppress(OSError):
                    Path(pattern).parent.mkdir(parents=True, exist_ok=True)


def _memory_limit(actual: Mapping[str, Any]) -> dict[str, str]:
    """Set GOMEMLIMIT, so that Go collects garbage before the memory limiter refuses data; the user's own value wins."""
    limits = [
        settings.get("limit_mib")
        for name, settings in (actual.get("processors") or {}).items()
        if name.partition("/")[0] == "memory_limiter" and isinstance(settings, dict)
    ]
    return {"GOMEMLIMIT": f"{limits[0]}MiB"} if limits and isinstance(limits[0], int) else {}


def _runtime_folder(environ: Mapping[str, str]) -> Path:
    """Return a folder that only this user can enter; delete leftover configurations of ended processes from it."""
    folder = Path(environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"otel-rl-collector-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="otel-rl-collector-"))
    if folder.is_symlink() or state.st_uid != os.getuid() or state.st_mode & 0o077:
        return Path(tempfile.mkdtemp(prefix="otel-rl-collector-"))
    for left in folder.glob("*-*.yaml"):
        if not _runs(left.stem.rpartition("-")[2]):
            left.unlink(missing_ok=True)
    return folder


def _runs(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _protection(actual: Mapping[str, Any], listener: str) -> str:
    """Return what a sender needs for this listener, in brackets: nothing, TLS, credentials or both."""
    receiver, _, protocol = listener.partition(" ")
    settings = (actual.get("receivers") or {}).get(receiver) or {}
    server = (settings.get("protocols") or {}).get(protocol) or {}
    needed = [word for setting, word in (("tls", "TLS"), ("auth", "credentials")) if server.get(setting)]
    return f" ({', '.join(needed)})" if needed else ""


def _first_lines(selection: Selection, actual: Mapping[str, Any], file: Path) -> list[str]:
    listeners = host.listens_on(actual)
    health = next((endpoint for what, endpoint in listeners.items() if what.startswith("health")), "")
    ports = ", ".join(
        f"{what} {endpoint}{_protection(actual, what)}"
        for what, endpoint in listeners.items()
        if not what.startswith("health")
    )
    sinks = " ".join(selection.sinks) or ("files" if selection.role == "local" else "gateways")
    return [
        f"role {selection.role}, to {sinks}" + (f", with {' '.join(selection.options)}" if selection.options else ""),
        f"listens on {ports}",
        f"health http://{health}/" if health else "no health address",
        f"configuration {file}",
        f"stop it with Ctrl-C or kill {os.getpid()}",
    ]
