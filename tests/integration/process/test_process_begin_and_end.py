"""``rl.run.start`` and ``rl.run.end``: of ranks and drivers, of others that record, never of a killed process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_support import ONE_SPAN, plain

from otel_rl.report import write_report

if TYPE_CHECKING:
    from process_support import Programs

RESULT = [f"rl.run.result.{column}" for column in ("key", "last", "last_step", "best", "best_step")]
#: What says that a process is the second of two ranks.
RANK_1 = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "TORCHELASTIC_RUN_ID": "none",
    "MASTER_PORT": "1",
    "OTEL_RL_RUN_ID": "run",
}


def test_a_rank_that_is_killed_has_a_begin_and_no_end(programs: Programs) -> None:
    # What the rank has flushed is there; the end is missing because nothing runs after SIGKILL.
    programs.instrumented(
        "import os, signal, otel_rl\notel_rl.flush(60)\nos.kill(os.getpid(), signal.SIGKILL)\n", **RANK_1
    )

    assert [rank for rank, _ in programs.store.places("rl.run.start")] == [1]
    assert programs.store.places("rl.run.end") == []


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_children_of_a_rank_begin_with_their_first_record(programs: Programs, kind: str) -> None:
    programs.write("work.py", "import os\ndef idle(): pass\ndef busy():\n" + _indented(ONE_SPAN + "print(os.getpid())"))
    done = programs.instrumented(
        "import multiprocessing, work\n"
        "if __name__ == '__main__':\n"
        "    for target in (work.idle, work.busy):\n"
        f"        child = multiprocessing.get_context('{kind}').Process(target=target)\n"
        "        child.start(); child.join()\n",
        **RANK_1,
    )

    busy = int(done.out)
    began = {pid for _, pid in programs.store.places("rl.run.start")}
    assert busy in began
    assert len(began) == 2
    assert programs.store.places("rl.run.start") == programs.store.places("rl.run.end")


def test_a_driver_begins_without_a_record_of_its_own(programs: Programs) -> None:
    programs.instrumented("print('working')", OTEL_RL_ROLE="driver")

    assert len(programs.store.places("rl.run.start")) == len(programs.store.places("rl.run.end")) == 1


def test_a_plain_program_that_records_nothing_writes_nothing(programs: Programs) -> None:
    programs.instrumented("print('working')")

    assert not programs.store.root.exists()


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
        **RANK_1,
    )

    assert len(programs.store.points("made")) > 1
    assert {point["asInt"] for point in programs.store.points("rl.run.ended")} == {"0"}


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.strip().splitlines())
