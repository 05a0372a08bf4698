"""Record the cases, judge the report on each, and print a line of each as it comes.

    python -m causes.run [--quick] [--results FILE.md] [--into FOLDER] [--record-only] [--pages FOLDER] [--set MODULE]
        [NAME ...]

NAME is the beginning of a case's name. What was recorded with the same sources is not recorded again. ``--into`` puts a
copy of each recorded run, its truth and its output into a folder, for work on the detectors. ``--pages`` is
for those who judge blind: ``--set unseen.sheet --pages FOLDER``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from causes import judging
from causes.recordings import OUTPUT, record

if TYPE_CHECKING:
    from causes.cases import Case
    from causes.judging import Verdict

#: Modules with cases, and the programs beside them.
SETS = ("seen", "healthy")
#: Least shares of the faults that the first finding, and one of the first three, have to name.
LEAST_FIRST, LEAST_IN_THREE = 0.8, 0.95
#: Largest share of the healthy runs with a warning; none may have a critical.
MOST_WARNED = 0.05


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="causes.run", description="Record cases and judge the report on each.")
    parser.add_argument("names", nargs="*", help="beginnings of names; all cases without one")
    parser.add_argument("--quick", action="store_true", help="only the handful that runs in minutes")
    parser.add_argument("--results", type=Path, help="where to write the table; its data go beside it as JSON")
    parser.add_argument("--into", type=Path, help="copy what was recorded into this folder")
    parser.add_argument("--record-only", action="store_true", help="make no report")
    parser.add_argument("--pages", type=Path, help="only write the page on each case into this folder; tell no truth")
    parser.add_argument("--set", action="append", dest="sets", help=f"module with cases; default {', '.join(SETS)}")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    chosen = list(_chosen(options))
    verdicts, failed = [], 0
    for number, (case, programs) in enumerate(chosen, 1):
        begun = time.monotonic()
        try:
            folder = record(case, programs)
        except (RuntimeError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"{number}/{len(chosen)} {case.name}: not recorded: {error}", flush=True)
            continue
        spent = time.monotonic() - begun
        if options.into:
            _copy(case, folder, options.into)
        if options.pages:
            options.pages.mkdir(parents=True, exist_ok=True)
            judging.report(folder, case.name)
            shutil.copy(folder / "report.html", options.pages / f"{case.name}.html")
        if options.record_only or options.pages:
            print(f"{number}/{len(chosen)} {case.name}: recorded in {spent:.0f} s", flush=True)
            continue
        verdict = judging.judge(case, folder)
        verdicts.append(verdict)
        print(f"{number}/{len(chosen)} {_line(case, verdict)}", flush=True)
    cases = {case.name: case for case, _ in chosen}
    if verdicts:
        print("\n".join(judging.table(cases, verdicts).splitlines()[4:11]))
    if options.results and not failed:
        options.results.write_text(judging.table(cases, verdicts))
        options.results.with_suffix(".json").write_text(judging.as_json(verdicts))
    return 1 if failed or not all(list(_figures(cases, verdicts))) else 0


def _figures(cases: dict[str, Case], verdicts: list[Verdict]):
    """Whether each figure is reached; each that is not is printed."""
    sick = [one for one in verdicts if cases[one.case].truth]
    healthy = [one for one in verdicts if not cases[one.case].truth]
    named = [one.case for one in sick if not one.found_at]
    figures = (
        (sum(one.found_at == 1 for one in sick) >= LEAST_FIRST * len(sick), "too few faults are named first"),
        (len(named) <= (1 - LEAST_IN_THREE) * len(sick), f"too many faults are not named: {', '.join(named)}"),
        (all(one.worst != "critical" for one in healthy), "a healthy run has a critical"),
        (sum(one.worst == "warning" for one in healthy) <= max(MOST_WARNED * len(healthy), 1), "too many warnings"),
    )
    for is_reached, otherwise in figures:
        if not is_reached:
            print(f"not reached: {otherwise}")
        yield is_reached


def _chosen(options: argparse.Namespace):
    for name in options.sets or SETS:
        module = importlib.import_module(f"causes.{name}")
        beside = Path(module.__file__).with_name("programs")
        for case in module.CASES:
            is_named = not options.names or any(case.name.startswith(one) for one in options.names)
            if is_named and (case.quick or not options.quick):
                yield case, beside


def _copy(case: Case, folder: Path, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(into / case.name, ignore_errors=True)
    shutil.copytree(folder / "otel-rl" / case.name, into / case.name)
    shutil.copy(folder / OUTPUT, into / f"{case.name}.output.txt")
    (into / f"{case.name}.truth.json").write_text(json.dumps(asdict(case), indent=1) + "\n")


def _line(case: Case, verdict: Verdict) -> str:
    if case.truth is None:
        return f"{case.name}: healthy, worst is {verdict.worst} {verdict.alarms or ''}"
    found = f"found by finding {verdict.found_at}" if verdict.found_at else "NOT FOUND"
    onset = {True: "right", False: "wrong", None: "not judged"}[verdict.onset_is_right]
    said = "".join(f"\n    {one}" for one in verdict.first) or "\n    nothing found"
    return f"{case.name}: {found}, onset {onset}; {case.truth.cause} (since {case.truth.onset}){said}"


if __name__ == "__main__":
    sys.exit(main())
