"""What each test costs: a plugin of pytest that measures it, and a command that sums it up.

    python tests/support/expensive_tests.py [.test-costs.jsonl] [--folders]

The cost of a test is the CPU time of its process and of the programs it waited for. Wall time would say more about the
machine: it triples beside other work.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHOWN = 10
#: A cheaper test is not worth a line.
SHOWN_SECONDS = 1.0
#: Each test is appended here as a line of JSON. Removed from the environment: programs that tests start would report
#: it as an unknown variable of ours.
_FILE = os.environ.pop("OTEL_RL_TEST_COSTS", None)


def _cpu_seconds() -> float:
    """User and system time of this process and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


_measured_until = _cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Attach the CPU time since the last report: set-up and teardown are part of their test."""
    global _measured_until
    report = yield
    now = _cpu_seconds()
    report.cpu_seconds = now - _measured_until
    _measured_until = now
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection_finish() -> Iterator[None]:
    """Keep the imports of the collection out of the first test."""
    global _measured_until
    yield
    _measured_until = _cpu_seconds()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the most expensive tests of the session, and append all of them to the file."""
    costs = _costs(terminalreporter)
    if lines := list(_most_expensive(costs)):
        terminalreporter.section("most expensive tests")
        for line in lines:
            terminalreporter.line(line)
    if _FILE:
        with Path(_FILE).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(cost) + "\n" for cost in costs)


def _costs(terminalreporter: pytest.TerminalReporter) -> list[dict[str, Any]]:
    cpu: Counter[str] = Counter()
    wall: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                cpu[report.nodeid] += getattr(report, "cpu_seconds", 0.0)
                wall[report.nodeid] += report.duration
    environment = Path(sys.prefix).name
    return [
        {"environment": environment, "test": name, "cpu": round(seconds, 3), "wall": round(wall[name], 3)}
        for name, seconds in cpu.items()
    ]


def _most_expensive(costs: list[dict[str, Any]]) -> Iterator[str]:
    dear = [cost for cost in costs if cost["cpu"] >= SHOWN_SECONDS]
    for cost in sorted(dear, key=lambda cost: -cost["cpu"])[:SHOWN]:
        yield f"{cost['cpu']:7.1f} s of CPU, {cost['wall']:6.1f} s: {cost['test']} ({cost['environment']})"


def _sums(costs: Iterable[dict[str, Any]], *, by_folder: bool) -> Iterator[str]:
    cpu: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for cost in costs:
        folder = "/".join(Path(cost["test"].partition("::")[0]).parts[:3])
        group = f"{cost['environment']}  {folder}" if by_folder else cost["environment"]
        cpu[group] += cost["cpu"]
        tests[group] += 1
    for group, seconds in cpu.most_common():
        yield f"{seconds:7.0f} s of CPU, {tests[group]:6} tests: {group}"


def main() -> None:
    """Print sums and the most expensive tests of a file that the plugin has written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", default=".test-costs.jsonl", type=Path)
    parser.add_argument("--folders", action="store_true", help="sums by environment and folder")
    options = parser.parse_args()
    if not options.file.exists():
        parser.error(f"there is no {options.file}: `make test` writes it")
    costs = [json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines()]
    print(*_sums(costs, by_folder=options.folders), "", *_most_expensive(costs), sep="\n")


if __name__ == "__main__":
    main()
