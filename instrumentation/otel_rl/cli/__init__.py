"""The command line ``otel-rl``.

A command is a module or package here with ``configure(parser)`` and ``run(arguments) -> exit code``, and a line in
:data:`COMMANDS`. Only the module of the command that was asked for is imported, so ``otel-rl --help`` is instant and a
command can need an extra that is not installed. Unreadable input and missing extras are reported here.

Modules:
    report: arguments of ``otel-rl report``; the page is made by :mod:`otel_rl.report`.
    explain: ``otel-rl explain``.
    runs: ``otel-rl runs``.
    logs: ``otel-rl logs``.
    live: arguments of ``otel-rl live``; the page is served by :mod:`otel_rl.live`.
    top: arguments of ``otel-rl top``; the screen is made by :mod:`otel_rl.live.terminal`.
    trajectories: ``otel-rl trajectories``.
    sql: ``otel-rl sql``.
    dump_import: arguments of ``otel-rl import``; the work is done by :mod:`otel_rl.dumps`.
    export: arguments of ``otel-rl export``; the work is done by :mod:`otel_rl.export`.
    replay: arguments of ``otel-rl replay``; the work is done by :mod:`otel_rl.replay`.
    postmortem: arguments of ``otel-rl postmortem``; the work is done by :mod:`otel_rl.ranks.postmortem`.
    collector: arguments of ``otel-rl collector``; its work is done by :mod:`otel_rl.collector`.
    run_directory: the arguments that name the run to read.
    terminal: text of programs, made harmless for a terminal.
    doctor: arguments of ``otel-rl doctor`` and its checks.

Exit codes: 0 done, 1 problems found (``doctor``, ``replay``, ``import``), 2 the command could not do its work, 141
nobody reads its output.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from otel_rl.core import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

_DESCRIPTION = """\
OpenTelemetry for LLM post-training. Record a run with ours before your command:
  opentelemetry-instrument python train.py
  opentelemetry-instrument torchrun --nproc-per-node=2 train.py
It writes to ./otel-rl/<run> ($OTEL_RL_DATA_DIR), or sends to the collector that
OTEL_EXPORTER_OTLP_ENDPOINT names. Commands read the newest run there; a folder,
and --run, name another one."""

COMMANDS = {
    "report": "one run as one HTML page that needs no server",
    "explain": "what was found in a run, and the records that prove it",
    "live": "a page on this machine that follows a run while it is written",
    "top": "the same in a terminal: step, phases, values, ranks, findings",
    "runs": "list runs: state, last sign, step, reward, what they died of",
    "logs": "the last log records and exceptions, over all processes",
    "trajectories": "every sample of a run as a line of JSON",
    "sql": "ask a run with SQL",
    "import": "make a run of the rollouts that slime, verl or verifiers dumped",
    "export": "one run as a trace for Perfetto, or as tables",
    "postmortem": "where each rank of a dead or hanging run is, and who waits",
    "replay": "send the files of a run to a collector, now or after an outage",
    "doctor": "what is instrumented, what is not and why, where it goes",
    "collector": "our OpenTelemetry Collector: configure it, start it, build it",
}
"""Command (also its module here, but for :data:`_MODULES`) -> what it gives, in one line."""

#: Python has no module with the name of a keyword.
_MODULES = {"import": "dump_import"}

FAILED = 2
#: Module of a package that an extra brings -> the extra.
_EXTRAS = {
    "bokeh": "report", "jinja2": "report", "markupsafe": "report", "numpy": "report", "tqdm": "report",
    "tornado": "report", "rich": "live",
}  # fmt: skip
#: As a shell gives it for a program that SIGPIPE has ended.
_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``otel-rl``; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wanted = next((word for word in given if not word.startswith("-")), "")
    command = import_module(f"otel_rl.cli.{_MODULES.get(wanted, wanted)}") if wanted in COMMANDS else None
    parser = argparse.ArgumentParser(
        prog="otel-rl",
        description=_DESCRIPTION,
        epilog="otel-rl COMMAND --help says more.",
        formatter_class=_formatter,
    )
    parser.add_argument("--version", action="version", version=f"otel-rl {__version__}")
    choices = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, help_line in COMMANDS.items():
        sub_parser = choices.add_parser(name, help=help_line, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == wanted and command is not None:
            command.configure(sub_parser)
    if not given:
        parser.print_help()
        return 0
    parsed, more = parser.parse_known_args(given)
    # argparse takes no words that come after an option for a list of them: https://bugs.python.org/issue15112
    if more and not (hasattr(parsed, "words") and not any(word.startswith("-") for word in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if more:
        parsed.words += more
    return FAILED if command is None else _run(wanted, command, parsed)


def _run(name: str, command: ModuleType, arguments: argparse.Namespace) -> int:
    """Run the command, and say what the user can put right; the exit code."""
    try:
        code = int(command.run(arguments))
        # Here, and not when the interpreter ends, which would print a traceback.
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who reads it has seen enough. What is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        fix = f"pip install {missing}, or install otel-rl with its extra `{_EXTRAS[missing]}`"
        return complain(name, f"needs {missing}, which is not installed: {fix}")
    except Exception as error:
        from otel_rl.store.reader.errors import UnusableInput  # noqa: PLC0415 - `otel-rl --help` does without

        if not isinstance(error, UnusableInput):
            raise
        return complain(name, str(error))
    return code


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Return one that gives each command a line of its own, in a terminal of 80 columns."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=18)


def say(command: str, lines: Iterable[str]) -> None:
    """Say something beside the output of ``command``, on stderr."""
    for line in lines:
        print(f"otel-rl {command}: {line}", file=sys.stderr)


def complain(command: str, line: str) -> int:
    """Say on stderr why ``command`` could not do its work; the exit code for that."""
    say(command, [line])
    return FAILED
