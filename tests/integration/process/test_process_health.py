"""The health rules in real processes: loaded with the first step, told once, and never in the program's way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from process_support import Programs

TRAINS = """
import sys, otel_rl
for number in range(1, 21):
    with otel_rl.step(number):
        otel_rl.metric("kl", 0.01 if number < 10 else 7.0)
print("finished")
"""


def events(programs: Programs, name: str) -> list[dict[str, Any]]:
    found = []
    for file in programs.store.root.rglob("logs*.jsonl"):
        for line in file.read_text().splitlines():
            for resource in json.loads(line)["resourceLogs"]:
                for scope in resource["scopeLogs"]:
                    found += [one for one in scope["logRecords"] if one.get("eventName") == name]
    return found


def attribute(event: dict[str, Any], key: str) -> Any:
    return next(next(iter(one["value"].values())) for one in event["attributes"] if one["key"] == key)


def test_a_program_without_steps_loads_no_rules(programs: Programs) -> None:
    text = "import sys, otel_rl\nwith otel_rl.rollout(): pass\n"
    done = programs.instrumented(f"{text}print('otel_rl.health' in sys.modules, 'statistics' in sys.modules)")

    assert done.out == "False False\n"


def test_a_plain_loop_that_tells_its_values_is_judged(programs: Programs) -> None:
    done = programs.instrumented(TRAINS)

    assert (done.code, done.out) == (0, "finished\n")
    [event] = events(programs, "rl.health.changed")
    assert attribute(event, "rl.health.code") == "P3_kl_explosion"
    assert int(attribute(event, "rl.health.onset_iteration")) == 10
    assert len(events(programs, "rl.health.final")) == 1


def test_a_mistake_in_the_rules_file_is_one_line_and_the_program_goes_on(programs: Programs) -> None:
    (programs.directory / "rules.yaml").write_text("rules:\n  P3_kl_explosion:\n    kl_warnin: 3\n")
    done = programs.instrumented(
        "import os, tempfile; os.chdir(tempfile.gettempdir())\n" + TRAINS, OTEL_RL_HEALTH_RULES="rules.yaml"
    )

    assert (done.code, done.out) == (0, "finished\n")
    [line] = [line for line in done.err.splitlines() if "OTEL_RL_HEALTH_RULES" in line]
    assert line.endswith(
        "rules.yaml, line 3: kl_warnin is no limit of P3_kl_explosion; did you mean kl_warning?; "
        "the default health rules are in force"
    )


def test_a_rules_file_holds(programs: Programs) -> None:
    (programs.directory / "rules.json").write_text('{"rules": {"P3_kl_explosion": false}}')
    programs.instrumented(TRAINS, OTEL_RL_HEALTH_RULES="rules.json")

    assert events(programs, "rl.health.changed") == []
    assert len(events(programs, "rl.health.final")) == 1


def test_switched_off_nothing_is_loaded_and_nothing_told(programs: Programs) -> None:
    done = programs.instrumented(f"{TRAINS}print('otel_rl.health.monitor' in sys.modules)", OTEL_RL_HEALTH_RULES="off")

    assert done.out == "finished\nFalse\n"
    assert events(programs, "rl.health.final") == []


def test_where_the_rules_cannot_be_loaded_the_steps_are_recorded_and_the_status_says_why(programs: Programs) -> None:
    done = programs.instrumented(f"import sys\nsys.modules['otel_rl.health'] = None\n{TRAINS}")

    assert (done.code, done.out) == (0, "finished\n")
    assert programs.store.span_names().count("rl.rank.step") == 20
    [manifest] = programs.store.root.rglob("manifest.json")
    status = json.loads(manifest.read_text())["instrumentors"]["health"]
    assert status["state"] == "skipped"
    assert "no health rules" in status["reason"]


def test_a_forked_child_with_steps_of_its_own_tells_nothing_of_its_parents(programs: Programs) -> None:
    done = programs.instrumented(
        TRAINS.replace(
            'print("finished")',
            "import os\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    for number in range(1, 5):\n"
            "        with otel_rl.step(number):\n"
            "            otel_rl.metric('kl', 7.0)\n"
            "    os._exit(0)\n"
            "print(os.waitpid(child, 0)[1])",
        )
    )

    assert (done.code, done.out) == (0, "0\n")
    assert len(events(programs, "rl.health.changed")) == 1
