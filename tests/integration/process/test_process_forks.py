"""Forked and spawned workers report for themselves, once, and DataLoader workers not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from process_support import Programs

PROGRAM = """
import multiprocessing, os, sys
from opentelemetry import metrics, trace
tracer, counter = trace.get_tracer("t"), metrics.get_meter("t").create_counter("things")
def work(name, number):
    with tracer.start_as_current_span(name):
        counter.add(number)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_worker_reports_its_own_numbers(programs: Programs, method: str) -> None:
    done = programs.instrumented(
        PROGRAM + "if __name__ == '__main__':\n"
        "    work('parent', 1)\n"
        f"    process = multiprocessing.get_context({method!r}).Process(target=work, args=('worker', 10))\n"
        "    process.start(); process.join(); print(process.exitcode)\n"
    )

    assert done.out == "0\n"
    assert programs.store.span_names() == ["parent", "worker"]
    assert sorted(point["asInt"] for point in programs.store.points("things")) == ["1", "10"]
    assert len({resource["service.instance.id"] for resource in programs.store.resources()}) == 2
    assert {resource["service.name"] for resource in programs.store.resources()} == {"program"}
    assert {manifest["clean_exit"] for manifest in programs.store.manifests()} == {True}
    assert len([span for span in programs.store.spans() if span["name"] == "rl.run"]) == 1
    assert len(done.err.splitlines()) == 1


def test_plain_fork_keeps_the_exit_code_and_the_pid(programs: Programs) -> None:
    done = programs.instrumented(
        PROGRAM + "work('parent', 1)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    work('child', 10); sys.exit(3)\n"
        "print(child, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )

    pid, code = map(int, done.out.split())
    assert code == 3
    assert pid in {resource["process.pid"] for resource in programs.store.resources()}
    assert sorted(point["asInt"] for point in programs.store.points("things")) == ["1", "10"]


def test_data_loader_workers_write_nothing(programs: Programs) -> None:
    pytest.importorskip("torch")
    done = programs.instrumented(
        PROGRAM + "from torch.utils.data import DataLoader, Dataset\n"
        "class Items(Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, index):\n"
        "        work('item', 1); return index\n"
        "work('parent', 1)\n"
        "print(sum(int(batch) for batch in DataLoader(Items(), num_workers=2)))\n"
    )

    assert done.out == "6\n"
    assert programs.store.span_names() == ["parent"]
    assert len(programs.store.directories) == 1
