"""``otel-rl replay [DIR] [--run ID] [--endpoint URL] [--protocol P] [--signal S ...] [--wait SECONDS]``."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from otel_rl.cli import complain, run_directory, say
from otel_rl.cli.doctor import otlp_answers
from otel_rl.core import addresses
from otel_rl.pipeline import exporter_selection
from otel_rl.pipeline.outage import in_words
from otel_rl.replay.destinations import open_destination
from otel_rl.replay.ledger import Ledger
from otel_rl.replay.sending import RunReplay, Stopped, folder_of
from otel_rl.report.core.sentences import unreadable
from otel_rl.store.reader.errors import UnusableInput
from otel_rl.store.reader.lines import size
from otel_rl.store.reader.locate import find_run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from otel_rl.store.reader import RunSource
_DESCRIPTION = """\
Send the files of a run to an OTLP destination: a whole run that was recorded to files, or what a collector that was
away did not take. Times and ids stay those of the run."""

_EPILOG = """\
Where it is interrupted, run it again: what the destination has acknowledged is never sent again, as a ledger in the
run's folder says (replay-<destination>.jsonl). What was sent without an answer is sent again and counted. Headers,
certificates, time limit and compression come from the OTEL_EXPORTER_OTLP_* variables. Of a job that still runs, what
its files hold now is sent.

Exit status: 0 the destination has acknowledged everything; 1 it has not, run it again, or it rejected something;
2 nothing was sent."""

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOLS = ("grpc", "http/protobuf")
#: Seconds between two signs of life.
_INTERVAL, _INTERVAL_OF_FILES = 0.2, 10.0
_NAMED = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    parser.add_argument(
        "--endpoint", metavar="URL", help=f"where to send it, without /v1/traces (default: ${_ENDPOINT} and its like)"
    )
    parser.add_argument(
        "--protocol", choices=_PROTOCOLS, help="default: $OTEL_EXPORTER_OTLP_PROTOCOL, else http/protobuf for port 4318"
    )
    parser.add_argument(
        "--signal", action="append", choices=exporter_selection.SIGNALS, help="send this one only; may be repeated"
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=float,
        help="how long the destination may be away (default: 60, and not at all where nothing listens from the start)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Send, and say what became of it."""
    environ = _environ(arguments)
    source = _source(run_directory.choose_run_directory(arguments), arguments.run)
    replay, progress, where = _open(source, environ, arguments)
    stopped: Stopped | None = None
    try:
        replay.run()
    except Stopped as error:
        stopped = error
    except OSError as error:
        return complain("replay", f"the ledger cannot be written ({error.strerror or error}); nothing more is sent")
    finally:
        progress.end()
        replay.close()
    return _conclude(replay, source, where, stopped)


def _environ(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the variables with what the arguments say; those of single signals give way to an argument."""
    environ = dict(os.environ)
    for name, value in (("ENDPOINT", arguments.endpoint), ("PROTOCOL", arguments.protocol)):
        if value is not None:
            for signal in exporter_selection.SIGNALS:
                environ.pop(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", None)
            environ[f"OTEL_EXPORTER_OTLP_{name}"] = value
    for signal in arguments.signal or exporter_selection.SIGNALS:
        address = exporter_selection.endpoint(environ, signal)
        if address is None:
            raise UnusableInput(
                f"no destination; give --endpoint, for example http://localhost:4318, or set {_ENDPOINT}"
            )
        if reason := _unusable(address, is_general=address == environ.get(_ENDPOINT, "").strip()):
            raise UnusableInput(f"{addresses.without_secrets(address)} {reason}")
        environ[f"OTEL_{signal.upper()}_EXPORTER"] = "otlp"
    return environ


def _unusable(address: str, *, is_general: bool) -> str:
    if "://" not in address:
        address = f"grpc://{address}"
    try:
        parts = urlsplit(address)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.scheme not in ("http", "https", "grpc"):
        return "is no address; write it as http://HOST:PORT or https://HOST:PORT"
    if is_general and parts.path.rstrip("/").endswith(tuple(f"/v1/{signal}" for signal in exporter_selection.SIGNALS)):
        return "ends with the path of one signal; give the address without /v1/..."
    return ""


def _source(path: Path, run_id: str | None) -> RunSource:

    source = find_run(path, run_id)
    if not source.files:
        raise UnusableInput(f"{source.path} holds no files of traces, metrics or logs; everything was sent as it ran")
    if source.is_mixed:
        raise UnusableInput(
            f"{source.path} is the output of a collector with several runs in the same files, which are sent as"
            " wholes; send them with `otel-rl collector run --with replay`"
        )
    return source


def _open(
    source: RunSource, environ: Mapping[str, str], arguments: argparse.Namespace
) -> tuple[RunReplay, _Progress, str]:

    signals = arguments.signal or exporter_selection.SIGNALS
    plan = exporter_selection.choose(environ)
    for complaint in plan.complaints:
        print(complaint, file=sys.stderr)
    try:
        destinations = {
            signal: open_destination(environ, signal, plan.exporters[signal][0]) for signal in dict.fromkeys(signals)
        }
    except OSError as error:
        raise UnusableInput(f"{error.filename} cannot be read ({error.strerror}); correct the variable") from None
    addresses = {signal: _address(environ, signal) for signal in destinations}
    progress = _Progress(sum(size(file.path) for file in source.files if file.signal in destinations))
    of_address = {address: Ledger(folder_of(source), address) for address in dict.fromkeys(addresses.values())}
    ledgers = {signal: of_address[address] for signal, address in addresses.items()}
    replay = RunReplay(source, ledgers, destinations, arguments.wait, progress.advance)
    return replay, progress, " and ".join(of_address)


def _address(environ: Mapping[str, str], signal: str) -> str:
    """Return the address that names the ledger, without a path of the signal, credentials or a slash at its end."""
    address = addresses.without_credentials(exporter_selection.endpoint(environ, signal) or "").rstrip("/")
    return address.removesuffix(f"/v1/{signal}").rstrip("/")


class _Progress:
    """The share that is done, on standard error: one line that changes, or a line now and then into a file."""

    def __init__(self, size: int) -> None:
        self._size = max(size, 1)
        self._done = 0
        self._is_terminal = sys.stderr.isatty()
        self._interval = _INTERVAL if self._is_terminal else _INTERVAL_OF_FILES
        self._next = time.monotonic() + self._interval
        self._shown = False

    def advance(self, size: int) -> None:
        """Count ``size`` bytes more."""
        self._done += size
        if time.monotonic() < self._next:
            return
        self._next, self._shown = time.monotonic() + self._interval, True
        line = f"otel-rl replay: {min(self._done / self._size, 1):.0%} of {self._size / 1e6:.1f} MB"
        before, after = ("\r", "") if self._is_terminal else ("", "\n")
        print(f"{before}{line}", end=after, file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line."""
        if self._shown and self._is_terminal:
            print(file=sys.stderr)


def _conclude(replay: RunReplay, source: RunSource, where: str, stopped: Stopped | None) -> int:

    sent = in_words(replay.sent)
    print(
        f"{where} has acknowledged {sent} of run {source.run_id or source.path.name}"
        if sent
        else f"{where} has acknowledged nothing{'' if stopped else ' more'} of run {source.run_id or source.path.name}"
    )
    notes = []
    if any(replay.repeated.values()):
        notes.append(
            f"{in_words(replay.repeated)} of them may be there twice: they were sent before, without an answer"
        )
    for what, counts in (("rejected", replay.rejected), ("refused", replay.refused)):
        if any(counts.values()):
            notes.append(f"{in_words(counts)} {what} ({'; '.join(replay.reasons)})")
    if replay.unread:
        notes.append(f"could not be read: {', '.join(replay.unread[:_NAMED])}")
    if lines := unreadable(replay.problems):
        notes.append(lines)
    if source.others:
        notes.append(f"this is the newest run; others with --run: {', '.join(source.others[:_NAMED])}")
    notes += source.remarks
    say("replay", notes if stopped is None else [*notes, _why(stopped, where)])
    is_incomplete = any(replay.rejected.values()) or any(replay.refused.values()) or replay.unread
    return int(stopped is not None or bool(is_incomplete))


def _why(stopped: Stopped, where: str) -> str:

    raw: Any = stopped.reply.raw
    if hasattr(raw, "code") and callable(raw.code):
        sentence = otlp_answers.of_grpc(raw.code().name, raw.details() or "", stopped.signal)
    else:
        sentence = otlp_answers.of_http(raw, stopped.signal)
    # What a program would do.
    sentence = sentence.replace(f", or unset {_ENDPOINT} to write files", "")
    waited = f", for {stopped.waited:.0f} s" if stopped.waited >= 1 else ""
    listens = "; --wait SECONDS waits until it listens" if stopped.reply.is_unreachable and not waited else ""
    return f"not all was sent: {where} {sentence}{waited}. Run the same command again to go on{listens}."
