"""``otel-rl logs [DIR] [--run ID] [--rank N] [--last N] [--errors] [--events] [--stack] [--follow]``."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from otel_rl.cli import run_directory, say, terminal
from otel_rl.report.core import sentences
from otel_rl.semconv import attributes as names
from otel_rl.store.reader import uncaught_exceptions
from otel_rl.store.reader.locate import find_run
from otel_rl.store.reader.log_tail import EXCEPTION, LogTail, Wanted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from otel_rl.store.reader.records import Log
_DESCRIPTION = """\
Print the last log records of a run, and the exceptions that ended its processes, in the order of their times over all
processes. Files are read from their ends, so that those of a long run are as fast."""

_EPILOG = """\
What a program prints is not kept, and what it logs only with OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED=true.
Events of otel-rl and of calls to models are left out unless --events asks for them. Escape sequences and other control
characters are shown as \\x1b, and have no effect.

Exit status: 0 the records are printed, also where there are none; 2 there is nothing to read."""

_LAST = 100
#: Seconds between two looks at the files.
_INTERVAL = 1.0
_NONE = (
    "this run has no such record; prints are not kept, and log lines only with"
    " OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED=true"
)
_RUNS_NAMED = 5
_INDENT = "    "


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    run_directory.configure(parser)
    parser.add_argument("--rank", metavar="N", type=int, help="of this rank only")
    parser.add_argument(
        "--last", metavar="N", type=int, default=_LAST, help="print so many; 0: all (default: %(default)s)"
    )
    parser.add_argument(
        "--errors", action="store_true", help="those of severity ERROR and above, and uncaught exceptions only"
    )
    parser.add_argument("--events", action="store_true", help="events of otel-rl and of calls to models, too")
    parser.add_argument("--stack", action="store_true", help="print the stacks of exceptions")
    parser.add_argument("--follow", action="store_true", help="go on with what is written, until Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    """Print the records."""
    source = find_run(run_directory.choose_run_directory(arguments), arguments.run)
    tail = LogTail(source, Wanted(arguments.rank, arguments.errors, arguments.events))
    printed = _print(tail.last(arguments.last) if arguments.last > 0 else tail.all(), with_stack=arguments.stack)
    notes = [] if printed or arguments.follow else [_NONE]
    if source.others and arguments.run is None:
        notes.append(f"the newest run is shown; choose with --run: {', '.join(source.others[:_RUNS_NAMED])}")
    say("logs", map(terminal.one_line, [*notes, *source.remarks, *_unread(tail)]))
    if arguments.follow:
        for logs in _appended(tail, source.path):
            _print(logs, with_stack=arguments.stack)
        say("logs", map(terminal.one_line, [f"{source.path} is gone"]))
    return 0


def _unread(tail: LogTail) -> list[str]:

    unreadable = sentences.unreadable(tail.problems)
    return [unreadable] if unreadable else []


def _appended(tail: LogTail, folder: Path) -> Iterator[list[Log]]:
    """Yield what is written, until the run's folder is gone; a process that begins later is found."""
    while folder.is_dir():
        yield tail.appended()
        time.sleep(_INTERVAL)


def _print(logs: Iterable[Log], *, with_stack: bool) -> bool:
    """Print the records; False where there are none."""
    printed = False
    for log in logs:
        print("\n".join(_lines(log, with_stack=with_stack)))
        printed = True
    sys.stdout.flush()
    return printed


def _lines(log: Log, *, with_stack: bool) -> list[str]:
    """Return time, severity, process and logger, then what it says; further lines are indented."""
    error, stack = _error(log), str(log.attributes.get(names.EXCEPTION_STACKTRACE) or "")
    said = [f"uncaught {error}"] if log.event == EXCEPTION else [_said(log), *([error] if error else [])]
    if with_stack and stack:
        said.append(stack.rstrip())
    severity = log.severity_text or str(log.severity or "")
    head = f"{_moment(log.time)}  {severity:<5}  {log.process.label}  "
    source = f"{log.event or log.scope}: " if log.event != EXCEPTION and (log.event or log.scope) else ""
    first, *rest = "\n".join([f"{head}{source}{said[0]}", *said[1:]]).split("\n")
    return [terminal.clean(first, keep="\t"), *(_INDENT + terminal.clean(line, keep="\t") for line in rest)]


def _said(log: Log) -> str:
    return log.body if isinstance(log.body, str) else json.dumps(log.body) if log.body is not None else ""


def _error(log: Log) -> str:
    """Return ``KeyError: 'reward' (train.py:12, in score)``; ``""`` for a record without an exception."""
    if not log.attributes.get(names.EXCEPTION_TYPE):
        return ""
    exception = uncaught_exceptions.exception_of(log)
    thread = f" in thread {exception.thread}" if exception.thread else ""
    return uncaught_exceptions.what(exception) + thread


def _moment(nanoseconds: int) -> str:
    moment = datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{nanoseconds // 10**6 % 1000:03d}Z"
