"""``python -m dashboards build``, from the root of the checkout; ``--help`` lists its options."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 when all is well, 1 when a generated file is out of date, 2 when grafanalib is missing."""
    parser = argparse.ArgumentParser(prog="python -m dashboards", description="Grafana boards and Prometheus rules")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="write dashboards/generated")
    build.add_argument("--check", action="store_true", help="change nothing; fail if a file is out of date")
    build.add_argument("--output", type=Path, metavar="FOLDER", help="instead of dashboards/generated")
    build.add_argument("--runbooks", metavar="URL", help="where your people read the runbooks; alerts link there")
    build.add_argument("--grafana", metavar="URL", help="where your people see the boards; alerts link there")
    options = parser.parse_args(arguments)
    try:
        from dashboards import build as builder  # noqa: PLC0415  # so that a missing extra gives a clear line
        from dashboards.lib.rules import Links  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "grafanalib":
            raise
        print("grafanalib is missing: pip install 'otel-rl[dashboards]'", file=sys.stderr)
        return 2
    folder = options.output or builder.GENERATED
    chosen = {name: url.rstrip("/") for name in Links._fields if (url := getattr(options, name))}
    links = Links(**chosen)
    if not options.check:
        builder.write(folder, links)
        return 0
    stale = builder.differences(folder, links)
    for line in stale:
        print(f"{folder.name}/{line}; run `python -m dashboards build`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
