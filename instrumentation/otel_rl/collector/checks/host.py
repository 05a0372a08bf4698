"""Checks of a configuration on this machine: variables, files, folders and, before a start, ports."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_rl.collector.checks import destinations, listeners, settings, variable_values
from otel_rl.collector.checks.structure import identifiers, values_of
from otel_rl.collector.parts.listen_address import with_port
from otel_rl.collector.parts.merge import leaves
from otel_rl.collector.parts.variables import without_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_rl.collector.checks.structure import Problems

_NETWORK = re.compile(
    r"^(nfs.*|lustre|cifs|smb.*|ceph|beegfs.*|gpfs|afs|9p|panfs|wekafs|fuse\.(sshfs|glusterfs|s3fs|juicefs).*)$"
)
_HIGHEST_PORT = 65535
_NO_ADDRESS_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
DATA_DIRECTORY = "OTEL_RL_COLLECTOR_DATA_DIR"
_QUEUE_STORES = ("file_storage", "queue_storage")
_LOCK = ".in-use"
"""End of the name of the file that a collector locks: of a folder, or with the name of one of its files before it."""
_PATHS = re.compile(r"^(\w+_file|filename|file)$")
_MANDATORY_WHEN_NAMED = {"client_ca_file": "empty it would switch the check of client certificates off without a word"}


def problems(configuration: Mapping[str, Any], actual: Mapping[str, Any], environ: Mapping[str, str]) -> Problems:
    """List what keeps this configuration from working here; this changes nothing and opens no port.

    ``actual`` is the configuration with the variables of ``environ`` put in.
    """
    variables = [*_variables(configuration, environ), *variable_values.problems(configuration, environ)]
    values = [*settings.left_open(configuration), *settings.memory(actual), *settings.fingerprints(actual)]
    values += settings.waits(actual)
    listens = listens_on(actual)
    sent = [*destinations.to_itself(actual, listens), *destinations.one_for_two(actual)]
    folders = [*_folders(actual), *_loops(actual), *_queue_beside(actual)]
    return [*variables, *values, *_files(actual), *folders, *listeners.on_one_port(listens), *sent]


def start_problems(actual: Mapping[str, Any]) -> Problems:
    """List what prevents a start now: ports in use, and folders that another collector has locked."""
    return [*_locks(actual), *_ports(actual)]


def listens_on(actual: Mapping[str, Any]) -> dict[str, str]:
    """Map each listener to its address: ``otlp grpc`` -> ``127.0.0.1:4317``; ``actual`` contains no variables."""
    listeners: dict[str, str] = {}
    for receiver, given in identifiers(actual, "receivers").items():
        for protocol, server in ((given or {}).get("protocols") or {}).items():
            listeners[f"{receiver} {protocol}"] = str((server or {}).get("endpoint", ""))
    for extension, given in identifiers(actual, "extensions").items():
        if isinstance(given, dict) and given.get("endpoint"):
            listeners[extension] = str(given["endpoint"])
    metrics = ((actual.get("service") or {}).get("telemetry") or {}).get("metrics") or {}
    for reader in metrics.get("readers") or []:
        prometheus = ((reader.get("pull") or {}).get("exporter") or {}).get("prometheus")
        if prometheus:
            listeners["own metrics"] = with_port(str(prometheus.get("host", "localhost")), prometheus.get("port"))
    return listeners


def files_of(actual: Mapping[str, Any]) -> dict[str, Path]:
    """Map each exporter that writes a file to that file."""
    exporters = identifiers(actual, "exporters").items()
    paths = {exporter: given.get("path") for exporter, given in exporters if isinstance(given, dict)}
    return {exporter: Path(path) for exporter, path in paths.items() if isinstance(path, str)}


def _variables(configuration: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    for name in without_value(configuration, environ):
        yield f"{name} is not set and has no default; set it, see the table of variables in collector-config/README.md"


def _files(actual: Mapping[str, Any]) -> Iterator[str]:
    for path, key, value in leaves(actual):
        if not _PATHS.match(key) or not isinstance(value, (str, type(None))):
            continue
        if not value:
            if key in _MANDATORY_WHEN_NAMED:
                yield f"{path} is empty: {_MANDATORY_WHEN_NAMED[key]}; name the file"
        elif not os.access(value, os.R_OK):
            state = "cannot be read by this user" if Path(value).exists() else "does not exist"
            yield f"{path}: {value} {state}; put the file there or correct the path"


def _folders(actual: Mapping[str, Any]) -> Iterator[str]:
    for extension, folder in _queues(actual):
        if reason := _why_not_writable(folder):
            yield (
                f"{extension}: the queue folder {folder} cannot be written ({reason}); set "
                "OTEL_RL_COLLECTOR_QUEUE_DIR to a folder on a disk of this node that can"
            )
        if kind := _network_file_system(folder):
            yield (
                f"{extension}: the queue folder {folder} is on a network file system ({kind}), where file locks and "
                "memory maps lose data; set OTEL_RL_COLLECTOR_QUEUE_DIR to a folder on a disk of this node"
            )
    for written in _written(actual):
        if reason := _why_not_writable(written.folder):
            exporter, folder, variable, _ = written
            yield f"{exporter}: {folder} cannot be written ({reason}); set {variable} to a folder that can"


class _Written(NamedTuple):
    """A folder that an exporter writes to, the variable that moves it, and the file in it that the exporter locks."""

    exporter: str
    folder: Path
    variable: str
    lock: Path


def _written(actual: Mapping[str, Any]) -> Iterator[_Written]:
    for exporter, path in files_of(actual).items():
        yield _Written(exporter, path.parent, DATA_DIRECTORY, path.with_name(f".{path.name}{_LOCK}"))
    for exporter, given in identifiers(actual, "exporters").items():
        for folder in values_of((given or {}).get("dead_letter"), "directory"):
            yield _Written(exporter, Path(folder), "OTEL_RL_COLLECTOR_DEAD_LETTER_DIR", Path(folder, _LOCK))


def _loops(actual: Mapping[str, Any]) -> Iterator[str]:
    """Report folders that are both read and written: every record would be read again in an endless loop."""
    written = {each.folder.resolve(): each.exporter for each in _written(actual)}
    for receiver, given in identifiers(actual, "receivers").items():
        for pattern in (given or {}).get("include") or []:
            # ** is any number of folders, and none.
            read = str(Path(str(pattern)).parent.resolve()).replace("/**", "*")
            for folder in (folder for folder in written if fnmatchcase(str(folder), read)):
                yield (
                    f"{receiver} reads {folder}, where {written[folder]} writes: everything would go round for ever; "
                    f"move the files to a folder of their own and name that in receivers.{receiver}.include"
                )


def _queue_beside(actual: Mapping[str, Any]) -> Iterator[str]:
    """Report a queue in a folder that something else is written to: its lock would keep the collector from starting."""
    written = {each.folder.resolve(): each for each in _written(actual)}
    for extension, folder in _queues(actual):
        if other := written.get(folder.resolve()):
            yield (
                f"{extension} locks {folder}, where {other.exporter} writes too, so the collector could not start; set "
                f"OTEL_RL_COLLECTOR_QUEUE_DIR and {other.variable} to different folders"
            )


def _queues(actual: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    for extension, given in identifiers(actual, "extensions").items():
        if extension.partition("/")[0] in _QUEUE_STORES:
            yield extension, Path((given or {}).get("directory") or "/var/lib/otelcol/file_storage")


def _nearest(path: Path) -> Path:
    """Return the folder itself, or its nearest parent that exists."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _why_not_writable(folder: Path) -> str:
    existing = _nearest(folder)
    if not existing.is_dir():
        return f"{existing} is no folder"
    return "" if os.access(existing, os.W_OK | os.X_OK) else f"no permission in {existing}"


def _network_file_system(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the file system type of the folder when it is a network file system, else ""."""
    real = str(_nearest(folder).resolve())
    best, kind = "", ""
    with suppress(OSError):
        for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
            _, point, file_system, *_ = line.split(" ")
            point = point.replace("\\040", " ")
            inside = real == point or real.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, file_system
    return kind if _NETWORK.match(kind) else ""


def _locks(actual: Mapping[str, Any]) -> Iterator[str]:
    for extension, folder in _queues(actual):
        for file in sorted(folder.iterdir()) if folder.is_dir() else []:
            if file.is_file() and _locked(file):
                yield (
                    f"{extension}: another collector uses the queue folder {folder} ({file.name} is locked); stop it, "
                    "or set OTEL_RL_COLLECTOR_QUEUE_DIR to a folder of its own for each"
                )
                break
    # One line for a folder, in which each signal has a file.
    in_use = {written.folder: written for written in _written(actual) if _locked(written.lock)}
    for folder, written in in_use.items():
        yield (
            f"another collector writes into {folder}{_owner(written.lock)}; stop it, or set {written.variable} to a "
            "folder of its own for each"
        )


def _owner(lock: Path) -> str:
    """Return who holds a lock in brackets, as its holder noted it there."""
    with suppress(OSError):
        if note := lock.read_text(encoding="utf-8", errors="replace").strip():
            return f" ({note})"
    return ""


def _locked(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _ports(actual: Mapping[str, Any]) -> Iterator[str]:
    for what, endpoint in listens_on(actual).items():
        host, _, port = endpoint.rpartition(":")
        if not port.isdecimal() or int(port) > _HIGHEST_PORT:
            yield f"{what}: cannot listen on {endpoint} (its port is no number from 0 to {_HIGHEST_PORT}); {_fix(what)}"
        elif error := _why_not_listening(host.strip("[]"), port):
            wrong_host = isinstance(error, socket.gaierror) or error.errno in _NO_ADDRESS_HERE
            fix = _fix_of_host(what) if wrong_host else _fix(what)
            yield f"{what}: cannot listen on {endpoint} ({error.strerror or error}); {fix}"


def _why_not_listening(host: str, port: str) -> OSError | None:
    try:
        candidates = socket.getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = candidates[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except UnicodeError:
        return socket.gaierror(socket.EAI_NONAME, "no name that a host can have")
    except OSError as error:
        return error
    return None


def _fix_of_host(what: str) -> str:
    name = "HEALTH_ENDPOINT" if what.startswith("health") else "LISTEN"
    return f"set OTEL_RL_COLLECTOR_{name} to an address of this machine"


def _fix(what: str) -> str:
    name = listeners.VARIABLES.get(what)
    return f"stop what listens there or set {name}" if name else "stop what listens there or change the endpoint"
