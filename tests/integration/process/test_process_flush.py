"""``otel_rl.flush`` delivers what has been recorded so far, as often as the program asks."""

from __future__ import annotations

from process_support import Collector, Programs, closed_port, silent_server

RECORD = """
import otel_rl
def record(name):
    with otel_rl.tool(name): pass
"""


def test_each_flush_delivers_what_came_since_the_last_one(programs: Programs) -> None:
    done = programs.instrumented(
        RECORD + "import glob\n"
        "def lines(): return sum(text.count('execute_tool search') for text in map(str, (open(name).read() for name in"
        " glob.glob('otel-rl/*/*/traces-*.jsonl'))))\n"
        "for number in range(1, 4):\n"
        "    record('search')\n"
        "    print(otel_rl.flush(60), lines())\n"
    )

    assert done.out == "True 1\nTrue 2\nTrue 3\n"
    assert len(programs.store.span_names()) == 3


def test_delivery_at_the_end_closes_nothing_for_good(programs: Programs) -> None:
    programs.instrumented(
        RECORD + "from otel_rl.ending import exit as process_exit\n"
        "record('before')\nprocess_exit.deliver()\nrecord('after')\n"
    )

    assert programs.store.span_names() == ["execute_tool after", "execute_tool before"]
    assert programs.store.manifests()[0]["dropped"] == {}


def test_flush_says_when_the_collector_has_not_taken_it(programs: Programs) -> None:
    done = programs.instrumented(
        RECORD + "record('lost'); print(otel_rl.flush(0.3))\n",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed_port()}",
        OTEL_RL_EXIT_TIMEOUT="0.2",
    )

    assert (done.code, done.out) == (0, "False\n")


def test_flush_before_the_first_record_starts_nothing(programs: Programs) -> None:
    done = programs.instrumented(
        "import otel_rl, os\nprint(otel_rl.flush(60), len(os.listdir('/proc/self/task')))\n", OTEL_RL_QUIET="1"
    )

    assert done.out == "True 1\n"
    assert not (programs.directory / "otel-rl").exists()


def test_flush_without_telemetry_imports_nothing(programs: Programs) -> None:
    done = programs.plain("import sys, otel_rl\nprint(otel_rl.flush(), 'opentelemetry' in sys.modules)\n")

    assert (done.out, done.err) == ("True False\n", "")


def test_flush_of_nonsense_raises_nothing(programs: Programs) -> None:
    done = programs.instrumented(
        RECORD + "record('x')\nfor timeout in (None, 'soon', float('nan'), -1, float('inf')): otel_rl.flush(timeout)\n",
        OTEL_RL_RAISE_INTERNAL_ERRORS="",
        OTEL_RL_QUIET="1",
    )

    assert done.code == 0
    assert programs.store.span_names() == ["execute_tool x"]


def test_what_an_observable_callback_starts_can_be_terminated(programs: Programs) -> None:
    done = programs.instrumented(
        "import subprocess, otel_rl\n"
        "from opentelemetry import metrics\n"
        "found = []\n"
        "def observe(options):\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        "    child.terminate()\n"
        "    try: found.append(child.wait(200))\n"
        "    finally: child.kill()\n"
        "    return [metrics.Observation(1)]\n"
        "metrics.get_meter('program').create_observable_gauge('level', [observe])\n"
        "otel_rl.flush(250)\n"
        "print(found[0])\n"
    )
    assert done.out == "-15\n"


def test_observable_callback_that_flushes_does_not_wait_for_itself(programs: Programs) -> None:
    done = programs.instrumented(
        RECORD + "from opentelemetry import metrics\n"
        "results = []\n"
        "def observe(_):\n"
        "    results.append(otel_rl.flush(60)); return [metrics.Observation(1)]\n"
        "metrics.get_meter('program').create_observable_gauge('level', [observe])\n"
        "record('x'); print(otel_rl.flush(60), results)\n"
    )

    assert done.out == "True [False]\n"


def test_process_has_one_thread_for_files_one_for_the_network_and_one_for_sigterm(
    programs: Programs, collector: Collector
) -> None:
    done = programs.instrumented(
        RECORD + "import threading\nfrom opentelemetry import metrics\n"
        "record('x'); otel_rl.event('e'); metrics.get_meter('m').create_counter('made').add(1)\n"
        "otel_rl.flush(60)\n"
        "print(sorted(thread.name for thread in threading.enumerate() if thread is not threading.main_thread()))\n",
        OTEL_TRACES_EXPORTER="otlp,otel_rl_file",
        OTEL_METRICS_EXPORTER="otlp,otel_rl_file",
        OTEL_LOGS_EXPORTER="otlp,otel_rl_file",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.port}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )

    assert done.out == "['otel-rl-files', 'otel-rl-network', 'otel-rl-sigterm']\n"
    assert set(collector.requests) == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    # Two sinks, one span: the last line counts it once.
    assert "recorded 2 spans," in done.err


def test_thread_of_ours_takes_no_signal_that_the_program_waits_for(programs: Programs) -> None:
    done = programs.instrumented(
        RECORD + "import os, signal, threading, time\n"
        "record('x'); otel_rl.flush(60)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "print(signal.sigtimedwait({signal.SIGUSR1}, 60).si_signo == signal.SIGUSR1)\n"
    )

    assert (done.code, done.out) == (0, "True\n")


def test_collector_that_hangs_holds_up_neither_flush_nor_files(programs: Programs) -> None:
    with silent_server() as port:
        done = programs.instrumented(
            RECORD + "import glob, time\nrecord('x'); print(otel_rl.flush(2))\n"
            "def written(): return any('execute_tool x' in open(name).read() for name in"
            " glob.glob('otel-rl/*/*/traces-*.jsonl'))\n"
            "while not written(): time.sleep(0.01)\nprint(written())\n",
            OTEL_TRACES_EXPORTER="otlp,otel_rl_file",
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"http://127.0.0.1:{port}",
            OTEL_RL_EXIT_TIMEOUT="0.2",
        )

    assert (done.code, done.out) == (0, "False\nTrue\n")
