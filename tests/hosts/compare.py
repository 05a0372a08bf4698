"""Run other projects' tests plain and instrumented, and fail where a test's outcome depends on the mode.

    PYTHONPATH=tests python -m hosts.compare [SUITE ...] [--write]

Suites are the rows of ``suites.toml``; without a name all of them run. A test whose outcomes differ is run again, three
times in both modes, and counts if it differs each time. ``--write`` enters the rows into ``benchmarks/results`` and
into ``docs/host-suites.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosts import environments, results, runs, suites
from hosts.comparison import RERUNS, counts, differences, verdict, with_reruns

if TYPE_CHECKING:
    from hosts.comparison import Difference, Verdict
    from hosts.runs import Place, Run
    from hosts.suites import Suite


def say(line: str) -> None:
    """Print one line at once: suites take minutes."""
    print(line, flush=True)


def compare(suite: Suite, place: Place) -> tuple[dict[str, Any], bool]:
    """Run a suite in both modes; returns its row of the table and whether it passed."""
    both = {mode: _first_run(suite, place, instrumented=mode == "instrumented") for mode in ("plain", "instrumented")}
    plain, instrumented = both.values()
    wrong = [problem for each in both.values() for problem in runs.problems(suite, each)]
    if wrong:
        _explain(wrong, both.values())
        return {}, False
    found = differences(plain.outcomes, instrumented.outcomes)
    found = with_reruns(found, _reruns(suite, place, found)) if found else []
    sorted_out = verdict(found, suite.known, plain.outcomes)
    _tell(suite, sorted_out, both)
    return results.row(suite, plain, instrumented, sorted_out), not (sorted_out.new or sorted_out.stale)


def _first_run(suite: Suite, place: Place, *, instrumented: bool) -> Run:
    result = runs.run(suite, place, instrumented=instrumented)
    mode = "instrumented" if instrumented else "plain"
    summary = ", ".join(f"{number} {outcome}" for outcome, number in counts(result.outcomes).items())
    say(f"{suite.name} {suite.version} {mode}: {summary or 'nothing ran'} in {result.seconds:.0f} s")
    return result


def _reruns(suite: Suite, place: Place, found: list[Difference]) -> list[tuple[dict[str, str], dict[str, str]]]:
    tests = [each.test for each in found]
    say(f"{suite.name}: {len(tests)} tests differ; running them {RERUNS} times more in both modes")
    pairs = []
    for _ in range(RERUNS):
        plain = runs.run(suite, place, tests, instrumented=False)
        pairs.append((plain.outcomes, runs.run(suite, place, tests, instrumented=True).outcomes))
    return pairs


def _explain(wrong: list[str], both: Any) -> None:
    for each in both:
        if any(problem.startswith("instrumented" if each.instrumented else "plain") for problem in wrong):
            say(each.output[-4000:])
    for problem in wrong:
        say(f"no comparison: {problem}")


def _tell(suite: Suite, sorted_out: Verdict, both: dict[str, Run]) -> None:
    for word, group in (
        ("DIFFERS", sorted_out.new),
        ("differs as known", sorted_out.known),
        ("differed, but not in every rerun", sorted_out.unsettled),
    ):
        for each in group:
            say(f"  {word}: {each.test}: {each.plain} -> {each.instrumented} ({each.seen_again} of {RERUNS} reruns)")
            for mode, run in both.items():
                if reason := run.reasons.get(each.test):
                    say(f"    {mode}: {reason.splitlines()[0][:300]}")
    _tell_failed_in_both(both["plain"], both["instrumented"])
    for test in sorted_out.stale:
        say(f"  NO LONGER DIFFERS: {test}; take it out of {suites.TABLE.name}, [{suite.name}.known]")


def _tell_failed_in_both(plain: Run, instrumented: Run) -> None:
    for test, outcome in plain.outcomes.items():
        if outcome in {"failed", "error"} and instrumented.outcomes.get(test) == outcome:
            say(f"  {outcome} in both modes: {test}: {(plain.reasons[test].splitlines() or [''])[0][:200]}")


def run_suite(suite: Suite) -> tuple[dict[str, Any], bool]:
    """Make what the suite needs and compare."""
    binaries = environments.environment(suite)
    source = environments.source(suite, binaries / "python")
    with tempfile.TemporaryDirectory(prefix="host-suite-") as scratch:
        return compare(suite, runs.Place(binaries, source, Path(scratch, suite.name)))


def main() -> int:
    """Compare what was asked for; the exit status is 1 where a comparison failed."""
    table = suites.load()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[*table, []], help="rows of suites.toml")
    parser.add_argument("--write", action="store_true", help="enter the rows into the results and the page")
    options = parser.parse_args()
    failed = []
    for name in options.suites or table:
        row, passed = run_suite(table[name])
        if row and options.write:
            results.enter(row)
        if not passed:
            failed.append(name)
    say(f"failed: {', '.join(failed)}" if failed else "every test of every suite has the same outcome, or is known")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
