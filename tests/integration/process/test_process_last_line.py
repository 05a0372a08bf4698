"""The last line says what was recorded, with samplers, several destinations and drops, and nothing that is not so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from process_support import Collector, closed_port

if TYPE_CHECKING:
    from process_support import Programs

MCP_SERVER = Path(__file__).parents[2] / "support" / "mcp_tool_server.py"
#: Three spans, the run's among them, and a metric point.
PROGRAM = """
from opentelemetry import metrics, trace
for name in ("one", "two"):
    with trace.get_tracer("program").start_as_current_span(name):
        metrics.get_meter("program").create_counter("made").add(1)
"""


def _line(programs: Programs, text: str = PROGRAM, **environ: str) -> str:
    done = programs.instrumented(text, OTEL_RL_EXIT_TIMEOUT="30", **environ)
    (line,) = [line for line in done.err.splitlines() if line.startswith("otel-rl")]
    return line


def test_each_span_counts_once_however_many_destinations_it_has(programs: Programs, collector: Collector) -> None:
    line = _line(
        programs,
        OTEL_TRACES_EXPORTER="otlp,otel_rl_file",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )

    assert "recorded 3 spans, " in line
    assert f"sent to http://127.0.0.1:{collector.port}; show it with: otel-rl report" in line


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        ("always_off", "(spans sampled by AlwaysOffSampler)"),
        ("parentbased_traceidratio", "(spans sampled by TraceIdRatioBased{0.0})"),
    ],
)
def test_a_sampler_that_leaves_spans_out_is_named_and_the_program_is_not_blamed(
    programs: Programs, sampler: str, words: str
) -> None:
    line = _line(programs, OTEL_TRACES_SAMPLER=sampler, OTEL_TRACES_SAMPLER_ARG="0")

    assert words in line
    assert "no supported" not in line


def test_the_default_sampler_is_not_mentioned(programs: Programs) -> None:
    assert "sampled" not in _line(programs)


def test_traces_that_are_switched_off_are_said_to_be_off(programs: Programs) -> None:
    line = _line(programs, OTEL_TRACES_EXPORTER="none")

    assert "(no spans: they have no exporter)" in line
    assert "no supported" not in line


def test_a_program_of_which_only_begin_and_end_are_known_is_told_what_is_missing(programs: Programs) -> None:
    line = _line(programs, "print('working')", OTEL_RL_ROLE="driver")

    assert "no span was recorded: the program used no supported trainer" in line


#: As if the program had run for a while.
A_WHILE = "from otel_rl.ending import summary; summary._A_WHILE = 0\n"
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(10**6))'])\n"


@pytest.mark.parametrize("text", ["", CHILD], ids=["alone", "with a child that records nothing"])
def test_a_long_program_of_which_nothing_is_instrumented_is_told_so(programs: Programs, text: str) -> None:
    line = _line(programs, A_WHILE + text)

    assert re.fullmatch(
        r"otel-rl: nothing was recorded: the program imported none of the \d+ instrumented libraries;.*"
        r" `otel-rl doctor` lists them, and otel_rl\.step\(\) and otel_rl\.rollout\(\) mark a loop of your own",
        line,
    )
    assert "transformers, trl, vllm" not in line


def test_loaded_libraries_of_agents_and_models_that_nothing_instruments_are_named(programs: Programs) -> None:
    for name in ("haystack", "cohere"):
        (programs.directory / f"{name}.py").write_text("")
    line = _line(programs, "import cohere, haystack, otel_rl\nwith otel_rl.rollout('r'): pass")

    said = "agents and tools of haystack-ai and direct model calls of cohere are not recorded"
    assert f"; {said} (`otel-rl doctor` says what is)" in line


def test_where_all_instrumentors_are_off_doctor_is_named(programs: Programs) -> None:
    line = _line(programs, A_WHILE, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="*")

    assert line == "otel-rl: nothing was recorded: no library is instrumented, `otel-rl doctor` says why"


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ("", {}),
        (A_WHILE, {"OTEL_RL_QUIET": "true"}),
        (A_WHILE, {"OTEL_TRACES_SAMPLER": "always_off"}),
        (A_WHILE, {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}),
        (A_WHILE + CHILD, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}),
        (
            "import os\nchild = os.fork()\n" + A_WHILE + "if child: os.waitpid(child, 0); os._exit(0)\n",
            {},
        ),
    ],
    ids=["short", "quiet", "sampled out", "no exporter", "a child may have sent something", "forked child"],
)
def test_nothing_is_said_of_nothing_where_nothing_was_to_be_expected(
    programs: Programs, text: str, environ: dict[str, str]
) -> None:
    done = programs.instrumented(text, **environ)

    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("children", ["launchers", "all"])
def test_a_child_says_nothing_of_what_it_did_not_record(programs: Programs, children: str) -> None:
    text = (
        "import multiprocessing, runpy, subprocess, sys\n"
        f"A_WHILE = {A_WHILE!r}\n"
        "def work(): exec(A_WHILE)\n"
        "if __name__ == '__main__':\n"
        "    exec(A_WHILE.replace('0', 'sys.maxsize'))  # it may take long on a busy machine\n"
        "    subprocess.run([sys.executable, '-c', A_WHILE], check=True)\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    worker.start(); worker.join()\n"
    )
    assert programs.instrumented(text, OTEL_RL_CHILDREN=children).err == ""


def test_what_a_full_queue_and_a_budget_cost_is_said_by_reason(programs: Programs) -> None:
    text = (
        "import otel_rl\n"
        "for number in range(100): otel_rl.event('e')\n"
        "for number in range(400): otel_rl.metric(f'key {number}', 1)\n"
    )
    line = _line(programs, text, OTEL_BLRP_MAX_QUEUE_SIZE="10", OTEL_BLRP_SCHEDULE_DELAY="60000")

    assert ", dropped (logs: " in line
    assert " queue_full; metrics: 101 cardinality; raise OTEL_BSP_MAX_QUEUE_SIZE or OTEL_BLRP_MAX_QUEUE_SIZE)" in line


def test_what_is_only_in_files_is_called_the_rest_where_spans_go_elsewhere(programs: Programs) -> None:
    line = _line(programs, OTEL_TRACES_EXPORTER="console")

    assert "sent to console; show the rest with: otel-rl report" in line


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "the credentials are missing or wrong; correct OTEL_EXPORTER_OTLP_HEADERS"),
        (403, "these credentials may not write there; use others in OTEL_EXPORTER_OTLP_HEADERS"),
        (404, "it takes no OTLP there; correct path and port of the endpoint"),
    ],
)
def test_a_destination_that_answers_with_an_error_is_not_said_to_be_missing(
    programs: Programs, status: int, advice: str
) -> None:
    collector = Collector(status)
    try:
        line = _line(
            programs,
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        )
    finally:
        collector.stop()

    assert f"(code: {status}): kept in " in line
    assert f"; it answers that {advice}" in line
    assert "check that a collector answers" not in line
    assert "to write files" not in line


def test_a_console_that_cannot_be_written_leads_to_no_advice_about_collectors_or_files(programs: Programs) -> None:
    text = f"import sys\nsys.stdout.close()\n{PROGRAM}"
    exporters = {f"OTEL_{signal}_EXPORTER": "console" for signal in ("TRACES", "METRICS", "LOGS")}
    line = _line(programs, text, **exporters)

    assert "could not be delivered to console" in line
    assert line.endswith("; check that the standard output of the program can be written")


def test_a_loss_at_one_destination_does_not_hide_what_another_has(programs: Programs) -> None:
    line = _line(
        programs,
        OTEL_TRACES_EXPORTER="otlp,otel_rl_file",
        OTEL_METRICS_EXPORTER="otel_rl_file",
        OTEL_LOGS_EXPORTER="otel_rl_file",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed_port()}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )

    assert line.startswith("otel-rl: 3 spans could not be delivered to http://127.0.0.1:")
    assert "; recorded 3 spans, " in line
    assert "sent to" not in line
    assert "show it with: otel-rl report" in line


def _reported(programs: Programs) -> str:
    """What ``otel-rl report`` says of the run on stderr."""
    return programs.otel_rl("report", programs.store.root, "-o", "page.html").err


#: What the collectives of a plain loop leave.
COUNTED = """
from opentelemetry import metrics
from otel_rl.collectives import first_use
first_use.is_counted = True
metrics.get_meter("program").create_counter("made").add(1)
"""


def test_a_plain_loop_with_collectives_is_told_what_was_counted_where_it_is_and_how_to_mark_steps(
    programs: Programs,
) -> None:
    line = _line(programs, COUNTED)

    assert line.startswith("otel-rl: recorded no step (collectives were counted; `with otel_rl.step(number):` around")
    assert "show it with: otel-rl report ./otel-rl/" in line
    assert "no supported" not in line


#: What torch leaves when an optimizer has been made.
MADE = """
import sys, types
import otel_rl
module = sys.modules["torch.optim.optimizer"] = types.ModuleType("torch.optim.optimizer")
module.Optimizer = type("Optimizer", (), {})
Made = type("Made", (module.Optimizer,), {"step": lambda self: None})
Made.step.hooked = True
"""
NO_STEP = "No step was recorded, although the program made an optimizer"


def test_an_optimizer_that_is_made_and_not_used_is_told_how_to_mark_steps(programs: Programs) -> None:
    line = _line(programs, MADE)

    assert line.startswith("otel-rl: recorded no step (an optimizer was made, and none made a step after a backward")
    assert "no supported" not in line


#: A loop that computes gradients and moves its weights by hand: what the instrumentor of PyTorch counts of it.
BY_HAND = """
import types
import otel_rl
from otel_rl.training import guessed_steps
guessed_steps.running = types.SimpleNamespace(passes=45)
otel_rl.event("trained")
"""


def test_the_line_and_the_report_count_the_backward_passes_that_no_optimizer_followed(programs: Programs) -> None:
    line = _line(programs, BY_HAND)

    assert ", no step (45 backward passes, and no optimizer of PyTorch moved; `with otel_rl.step(number):`" in line
    assert "No step was recognised in 45 backward passes: no optimizer of PyTorch moved." in _reported(programs)


def test_the_line_and_the_report_say_that_a_program_which_trained_opened_no_step(programs: Programs) -> None:
    line = _line(programs, f"{MADE}otel_rl.event('trained')\n")

    assert ", no step (an optimizer was made, and none made a step after a backward pass" in line
    assert NO_STEP in _reported(programs)


def test_where_the_user_has_switched_guessing_off_the_line_and_the_report_say_so(programs: Programs) -> None:
    off = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "otel_rl_torch_training"}
    line = _line(programs, f"{MADE}otel_rl.event('trained')\n", **off)

    why = "(otel_rl_torch_training: disabled by OTEL_PYTHON_DISABLED_INSTRUMENTATIONS)"
    for said in (line, _reported(programs)):
        assert f"its steps are not guessed {why}" in said
        assert "backward pass" not in said


def test_a_loop_with_steps_is_told_nothing_of_steps_whatever_it_counted_and_made(programs: Programs) -> None:
    line = _line(programs, f"{MADE}{COUNTED}with otel_rl.step(1): pass\n")

    assert line.startswith("otel-rl: recorded ")
    assert "no step" not in line
    assert NO_STEP not in _reported(programs)
    assert "steps are guessed" not in (programs.directory / "page.html").read_text()


MCP_CLIENT = """
import asyncio, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.executable, args=[SERVER, "stdio"], env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.call_tool("add", {"a": 1, "b": 2})

asyncio.run(main())
"""


def test_an_mcp_server_that_is_not_recorded_is_named_with_the_way_to_record_it(programs: Programs) -> None:
    pytest.importorskip("mcp")
    line = _line(programs, MCP_CLIENT.replace("SERVER", repr(str(MCP_SERVER))))

    assert "MCP servers over stdio were not recorded (OTEL_RL_CHILDREN=all and" in line
    assert len(programs.store.directories) == 1
