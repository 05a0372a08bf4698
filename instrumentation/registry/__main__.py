"""`python -m instrumentation.registry check [FOLDER]` and `python -m instrumentation.registry generate [--check]`."""

from __future__ import annotations

import argparse
import sys

from instrumentation.registry import check, generate

COMMANDS = {"check": check.main, "generate": generate.main}


def main() -> int:
    """Run the command that the first argument names; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m instrumentation.registry", description=__doc__, add_help=False)
    parser.add_argument("command", choices=COMMANDS)
    options, rest = parser.parse_known_args()
    return COMMANDS[options.command](rest)


if __name__ == "__main__":
    sys.exit(main())
