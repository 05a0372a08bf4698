"""Forked and spawned workers report for themselves, once, and DataLoader workers not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_support import ONE_SPAN

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
    # A set: a process that lives long enough exports its sum again.
    assert {point["asInt"] for point in programs.store.points("things")} == {"1", "10"}
    assert len({resource["service.instance.id"] for resource in programs.store.resources()}) == 2
    assert {resource["service.name"] for resource in programs.store.resources()} == {"program"}
    assert {manifest["clean_exit"] for manifest in programs.store.manifests()} == {True}
    assert len([span for span in programs.store.spans() if span["name"] == "rl.run"]) == 1
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_of_the_copy_of_multiprocessing_reports_too(programs: Programs, method: str) -> None:
    pytest.importorskip("multiprocess")
    done = programs.instrumented(
        PROGRAM.replace("multiprocessing", "multiprocess") + "if __name__ == '__main__':\n"
        f"    process = multiprocess.get_context({method!r}).Process(target=work, args=('worker', 10))\n"
        "    process.start(); process.join(); print(process.exitcode)\n"
    )

    assert done.out == "0\n"
    assert programs.store.span_names() == ["worker"]
    assert {manifest["clean_exit"] for manifest in programs.store.manifests()} == {True}


def test_workers_of_a_dataset_that_is_mapped_report_every_call(programs: Programs) -> None:
    pytest.importorskip("datasets")
    done = programs.instrumented(
        "import datasets, otel_rl\n"
        "def label(row):\n"
        "    with otel_rl.span('label'):\n"
        "        return {'y': row['x']}\n"
        "if __name__ == '__main__':\n"
        "    print(datasets.Dataset.from_dict({'x': list(range(20))}).map(label, num_proc=2).num_rows)\n"
    )

    assert (done.code, done.out) == (0, "20\n"), done.err
    assert programs.store.span_names() == ["label"] * 20
    # dill can pickle the function, and so the module that it names: datasets finds its cache again.
    assert "hash" not in done.err


def test_workers_of_joblib_report_every_call(programs: Programs) -> None:
    pytest.importorskip("joblib")
    done = programs.instrumented(
        "import joblib, otel_rl\n"
        "def work(number):\n"
        "    with otel_rl.span('call'):\n"
        "        return number\n"
        "if __name__ == '__main__':\n"
        "    print(joblib.Parallel(n_jobs=2)(joblib.delayed(work)(number) for number in range(8)))\n"
    )

    assert (done.code, done.out) == (0, f"{list(range(8))}\n"), done.err
    assert programs.store.span_names() == ["call"] * 8
    assert {manifest["clean_exit"] for manifest in programs.store.manifests()} == {True}


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
    # A set: a process that lives long enough exports its sum again.
    assert {point["asInt"] for point in programs.store.points("things")} == {"1", "10"}


def test_blocks_that_a_forked_child_leaves_are_the_parents_alone(programs: Programs) -> None:
    done = programs.instrumented(
        PROGRAM + "import otel_rl\n"
        "with otel_rl.rollout(), otel_rl.tool('search'):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        work('child', 1); sys.exit(3)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )

    assert done.out == "3\n"
    assert programs.store.span_names() == ["child", "execute_tool search", "rl.rollout"]


def test_data_loader_workers_write_nothing(programs: Programs) -> None:
    pytest.importorskip("torch")
    done = programs.instrumented(
        PROGRAM + "from torch.utils.data import DataLoader, Dataset\n"
        "class Items(Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, index):\n"
        "        work('item', 1); return index\n"
        "if __name__ == '__main__':\n"
        "    work('parent', 1)\n"
        "    print(sum(int(batch) for batch in DataLoader(Items(), num_workers=2)))\n"
        "    print(sum(int(batch) for batch in DataLoader(Items(), num_workers=1, multiprocessing_context='spawn')))\n"
    )

    assert done.out == "6\n6\n"
    assert programs.store.span_names() == ["parent"]
    assert len(programs.store.directories) == 1
    assert len(programs.store.places("rl.run.start")) == 1


# Over HTTP only: gRPC's C core itself may crash in a child forked while it is being loaded.
def test_child_forked_while_an_exporter_is_being_opened_can_import_what_it_imports(programs: Programs) -> None:
    done = programs.instrumented(
        PROGRAM + "import signal, time\n"
        "work('parent', 1)\n"
        "while 'requests' not in sys.modules: time.sleep(0.0005)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    signal.alarm(90)  # ends the child where it waits for ever\n"
        "    import requests\n"
        "    os._exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_BSP_SCHEDULE_DELAY="1",
        OTEL_RL_EXIT_TIMEOUT="0.2",
    )

    assert done.out == "3\n"


def test_worker_does_not_report_its_parents_internal_errors_again(programs: Programs) -> None:
    done = programs.instrumented(
        "import multiprocessing, otel_rl\n"
        "otel_rl.event('e', None, 'no mapping'); otel_rl.metric('key', 1)\n"
        "def work(): otel_rl.metric('key', 2)\n"
        "process = multiprocessing.get_context('fork').Process(target=work); process.start(); process.join()\n",
        OTEL_RL_RAISE_INTERNAL_ERRORS="",
    )

    assert done.err.count("internal error") == 1
    assert [point["asInt"] for point in programs.store.points("rl.telemetry.errors")] == ["1"]


def test_what_a_finalizer_of_a_worker_records_is_kept(programs: Programs) -> None:
    programs.instrumented(
        PROGRAM + "from multiprocessing import util\n"
        "def body():\n"
        "    util.Finalize(None, work, args=('finalizer', 1), exitpriority=10)\n"
        "process = multiprocessing.get_context('fork').Process(target=body); process.start(); process.join()\n"
    )

    assert programs.store.span_names() == ["finalizer"]


def test_counters_of_a_forked_child_begin_with_the_fork(programs: Programs) -> None:
    programs.instrumented(
        "import os, sys, time\n"
        "from otel_rl.semconv import metrics as names\n"
        "from otel_rl.telemetry.scope import Scope\n"
        "counted = [5]\n"
        "Scope('t').observe(names.TORCH_DISTRIBUTED_COLLECTIVE_CALLS, lambda: [(counted[0], {})])\n"
        "forked = time.time_ns()\n"
        "if os.fork(): os.wait(); open('forked', 'w').write(str(forked)); sys.exit()\n"
        "counted[0] = 1\n" + ONE_SPAN
    )

    starts = {
        point["asInt"]: int(point["startTimeUnixNano"])
        for point in programs.store.points("torch.distributed.collective.calls")
    }
    forked = int((programs.directory / "forked").read_text())
    assert starts["5"] < forked <= starts["1"]


SLOW_IMPORT = """
import importlib.machinery, os, sys, threading, time
# The exporter's import does not come to its end. Not in find_spec: there CPython itself holds up every fork.
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "otel_rl.store.writer.otlp_json": return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        def exec_module(module):
            open("importing", "w").close()
            while not os.path.exists("release"): time.sleep(0.001)
            load(module)
        spec.loader.exec_module = exec_module
        return spec
"""


def test_forks_wait_once_and_briefly_for_an_exporter_that_is_being_imported(programs: Programs) -> None:
    done = programs.instrumented(
        SLOW_IMPORT + "sys.meta_path.insert(0, Finder)\n"
        "import otel_rl\n"
        "with otel_rl.tool('x'): pass\n"
        "threading.Thread(target=otel_rl.flush, args=(60,), daemon=True).start()\n"
        "while not os.path.exists('importing'): time.sleep(0.001)\n"
        "from otel_rl.pipeline import exporters\n"
        "for _ in range(8):\n"
        "    child = os.fork()\n"
        "    if not child: os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "print(os.path.exists('release'), exporters.opening._patience <= 0)\n"
        "open('release', 'w').close()\n"
    )

    assert done.out == "False True\n"


def test_child_forked_during_an_import_that_takes_too_long_imports_for_itself(programs: Programs) -> None:
    done = programs.instrumented(
        SLOW_IMPORT + "sys.meta_path.insert(0, Finder)\n"
        "import signal, otel_rl\n"
        "with otel_rl.tool('x'): pass\n"
        "threading.Thread(target=otel_rl.flush, args=(60,), daemon=True).start()\n"
        "while not os.path.exists('importing'): time.sleep(0.001)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    signal.alarm(90)  # ends the child where it waits for ever\n"
        "    sys.meta_path.remove(Finder)\n"
        "    with otel_rl.tool('child'): pass\n"
        "    print(otel_rl.flush(60), flush=True)\n"
        "    os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "open('release', 'w').close()\n"
    )

    assert done.out == "True\n0\n"


def test_child_that_records_nothing_starts_no_thread_and_opens_nothing(programs: Programs) -> None:
    done = programs.instrumented(
        PROGRAM + "import otel_rl\n"
        "work('parent', 1); otel_rl.flush(60)\n"
        "from otel_rl.ending import exit as process_exit\n"
        "from otel_rl.pipeline import io_thread\n"
        "io_thread.start_new_thread = lambda *_: print('started')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    process_exit.deliver(); print('delivered', flush=True); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )

    # Threads of ours are what counts: the SDK itself starts a few in every forked child, to detect its resource.
    assert done.out == "delivered\n"
    assert len(programs.store.directories) == 1
