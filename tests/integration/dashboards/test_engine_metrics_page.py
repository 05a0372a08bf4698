"""The commands of docs/engine-metrics.md about the store of a finished run, with a real Prometheus and promtool."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from loopback_ports import free_ports
from prometheus_server import RUN, Prometheus

from dashboards.build import GENERATED
from dashboards.rules import engines as rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = (GENERATED.parents[1] / "docs" / "engine-metrics.md").read_text()
SECTION = PAGE.partition("## Ask a finished run\n")[2].partition("\n## ")[0]
START, *QUERIES = re.findall(r"^\$ (.*)$", SECTION, re.MULTILINE)
ADDRESS, PAGES_RUN = "127.0.0.1:24090", "my-run"
SECONDS = 120


@pytest.fixture(scope="module")
def address(prometheus_programs: Path, otelcol_rl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page's first command serves the store of a run that has ended."""
    folder = tmp_path_factory.mktemp("run")
    with Prometheus(prometheus_programs / "prometheus", folder) as server, server.with_engines(otelcol_rl):
        deadline = time.monotonic() + SECONDS
        while not all(server.query(rule.name) for rule in (rules.QUEUE_TIME, rules.PREFIX_HITS, rules.UNSCRAPED)):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    (folder / "data" / "prometheus").mkdir()
    for left in (folder / "data").iterdir():
        if left.name not in ("prometheus", "lock", "queries.active"):
            left.rename(folder / "data" / "prometheus" / left.name)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [str(prometheus_programs / "prometheus"), *shlex.split(START.replace(ADDRESS, address))[1:]]
    with (folder / "again.log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as one:
        try:
            while not _is_ready(address):
                assert one.poll() is None, (folder / "again.log").read_text()
                time.sleep(0.1)
            yield address
        finally:
            one.terminate()


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_the_page_starts_prometheus_and_asks_five_questions():
    assert START.startswith("prometheus --")
    assert len(QUERIES) == 5


@pytest.mark.parametrize("command", QUERIES)
def test_a_question_to_the_store_of_a_finished_run_has_an_answer(prometheus_programs: Path, address: str, command: str):
    done = subprocess.run(
        ["bash", "-c", command.replace(ADDRESS, address).replace(PAGES_RUN, RUN)],
        env={**os.environ, "PATH": f"{prometheus_programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r'instance="127\.0\.0\.1:\d+"', done.stdout), done.stdout
