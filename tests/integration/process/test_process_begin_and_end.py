"""``rl.run.start`` and ``rl.run.end``: of ranks and drivers, of others that record, never of a killed process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from process_support import ONE_SPAN, SCRIPTS, plain

from otel_rl.report import write_report

if TYPE_CHECKING:
    from process_support import Programs

RESULT = [f"rl.run.result.{column}" for column in ("key", "last", "last_step", "best", "best_step")]
#: Two ranks that record nothing: no trainer, no span.
JOIN = """
import os, signal, sys
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
"""


def _places(programs: Programs, name: str) -> list[tuple[Any, Any]]:
    """(rank, pid) of the processes that wrote event ``name``."""
    return sorted(
        (values.get("rl.rank"), values["process.pid"])
        for line in programs.store._lines("logs")
        for resource in line["resourceLogs"]
        for values in [plain(resource["resource"]["attributes"])]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
        if record.get("eventName") == name
    )


def _torchrun(programs: Programs, text: str, **environ: str) -> Any:
    script = programs.write("program.py", text)
    command = (SCRIPTS / "opentelemetry-instrument", SCRIPTS / "torchrun", "--standalone", "--nproc-per-node=2")
    return programs.run(*command, script, OTEL_RL_EXIT_TIMEOUT="30", **environ)


def test_every_rank_begins_and_ends_and_the_launcher_does_not(programs: Programs) -> None:
    done = _torchrun(programs, JOIN + "dist.destroy_process_group()\n")

    assert done.code == 0
    assert [rank for rank, _ in _places(programs, "rl.run.start")] == [0, 1]
    assert _places(programs, "rl.run.start") == _places(programs, "rl.run.end")


def test_a_rank_that_is_killed_has_a_begin_and_no_end(programs: Programs) -> None:
    # What the rank has flushed is there; the end is missing because nothing runs after SIGKILL.
    _torchrun(
        programs,
        JOIN + "import otel_rl\n"
        "if dist.get_rank() == 1:\n    otel_rl.flush(60)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nsignal.pause()\n",
    )

    assert 1 in [rank for rank, _ in _places(programs, "rl.run.start")]
    assert 1 not in [rank for rank, _ in _places(programs, "rl.run.end")]


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_children_of_a_rank_begin_with_their_first_record(programs: Programs, kind: str) -> None:
    programs.write("work.py", "import os\ndef idle(): pass\ndef busy():\n" + _indented(ONE_SPAN + "print(os.getpid())"))
    done = programs.instrumented(
        "import multiprocessing, work\n"
        "if __name__ == '__main__':\n"
        "    for target in (work.idle, work.busy):\n"
        f"        child = multiprocessing.get_context('{kind}').Process(target=target)\n"
        "        child.start(); child.join()\n",
        RANK="1",
        WORLD_SIZE="2",
        LOCAL_RANK="1",
        TORCHELASTIC_RUN_ID="none",
        MASTER_PORT="1",
        OTEL_RL_RUN_ID="run",
    )

    busy = int(done.out)
    began = {pid for _, pid in _places(programs, "rl.run.start")}
    assert busy in began
    assert len(began) == 2
    assert _places(programs, "rl.run.start") == _places(programs, "rl.run.end")


def test_a_driver_begins_without_a_record_of_its_own(programs: Programs) -> None:
    programs.instrumented("print('working')", OTEL_RL_ROLE="driver")

    assert len(_places(programs, "rl.run.start")) == len(_places(programs, "rl.run.end")) == 1


def test_a_plain_program_that_records_nothing_writes_nothing(programs: Programs) -> None:
    programs.instrumented("print('working')")

    assert not programs.store.root.exists()


def test_data_loader_workers_have_neither(programs: Programs) -> None:
    done = programs.instrumented(
        "import torch, otel_rl\n"
        "class Set(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, index):\n"
        "        with otel_rl.tool('load'): return index\n"
        "if __name__ == '__main__':\n"
        "    for kind in ('fork', 'spawn'):\n"
        "        for _ in torch.utils.data.DataLoader(Set(), num_workers=2, multiprocessing_context=kind): pass\n"
        "    otel_rl.event('done')\n"
    )

    assert done.code == 0
    assert len(_places(programs, "rl.run.start")) == 1


def test_the_end_of_a_failed_program_names_the_exception(programs: Programs) -> None:
    programs.instrumented(ONE_SPAN + "raise ValueError")

    (end,) = programs.store.events("rl.run.end")
    assert plain(end["attributes"])["error.type"] == "ValueError"


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("", "completed"),
        ("raise ValueError", "failed"),
        ("raise KeyboardInterrupt", "stopped"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM); signal.pause()", "stopped"),
    ],
)
def test_the_last_export_of_metrics_and_the_end_say_how_the_program_ended(
    programs: Programs, what: str, status: str
) -> None:
    programs.instrumented(ONE_SPAN + "import otel_rl\notel_rl.flush(60)\n" + what)

    first, *_, last = programs.store.points("rl.run.ended")
    assert (first["asInt"], first.get("attributes", [])) == ("0", [])
    assert (last["asInt"], plain(last["attributes"])) == ("1", {"rl.run.end.status": status})
    (end,) = programs.store.events("rl.run.end")
    assert plain(end["attributes"])["rl.run.end.status"] == status


@pytest.mark.parametrize("what", ["", "raise ValueError", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_end_has_the_result_and_of_a_killed_program_the_report_has_it(programs: Programs, what: str) -> None:
    train = (
        "import os, signal, otel_rl\n"
        "for number, reward in enumerate((0.25, 0.75, 0.5), start=1):\n"
        "    with otel_rl.step(number):\n"
        "        otel_rl.metric('reward', reward)\n"
        "otel_rl.flush(60)\n"
    )
    programs.instrumented(train + what)

    result = [{"key": "reward", "last": 0.5, "last_step": 3, "best": 0.75, "best_step": 2}]
    assert write_report(programs.store.root, programs.store.root / "page.html").run["result"] == result
    bodies = [plain(end["body"]["kvlistValue"]["values"]) for end in programs.store.events("rl.run.end")]
    is_killed = "SIGKILL" in what
    assert [body.keys() for body in bodies] == ([] if is_killed else [set(RESULT)])


def test_a_program_that_is_killed_leaves_the_gauge_at_0(programs: Programs) -> None:
    kill = "import os, otel_rl, signal\notel_rl.flush(60)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    programs.instrumented(ONE_SPAN + kill)

    assert {point["asInt"] for point in programs.store.points("rl.run.ended")} == {"0"}


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_the_end_of_a_child_with_the_number_of_its_rank_is_not_that_of_the_rank(programs: Programs, kind: str) -> None:
    programs.write("work.py", "def busy():\n" + _indented(ONE_SPAN))
    programs.instrumented(
        "import multiprocessing, os, otel_rl, signal, work\n"
        "if __name__ == '__main__':\n"
        + _indented(ONE_SPAN)
        + f"    child = multiprocessing.get_context('{kind}').Process(target=work.busy)\n"
        "    child.start(); child.join()\n"
        "    otel_rl.flush(60); os.kill(os.getpid(), signal.SIGKILL)\n",
        RANK="1",
        WORLD_SIZE="2",
        LOCAL_RANK="1",
        TORCHELASTIC_RUN_ID="none",
        MASTER_PORT="1",
        OTEL_RL_RUN_ID="run",
    )

    assert len(programs.store.points("made")) > 1
    assert {point["asInt"] for point in programs.store.points("rl.run.ended")} == {"0"}


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.strip().splitlines())
