"""``otel_rl.start()``, ``%load_ext otel_rl`` and notebook kernels: recording without ``opentelemetry-instrument``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from process_support import INSTRUMENT, ONE_SPAN

if TYPE_CHECKING:
    from process_support import Programs

MODEL_CALL = """
try: client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
except openai.APIConnectionError: print("refused")
"""
CLIENT = 'import openai\nclient = openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0)\n'


def test_libraries_and_clients_from_before_the_start_are_recorded_from_there_on(programs: Programs) -> None:
    pytest.importorskip("openai")
    done = programs.plain(
        CLIENT + MODEL_CALL + "import otel_rl\nprint(otel_rl.start() == otel_rl.start())\n" + MODEL_CALL
    )

    assert (done.code, done.out) == (0, "refused\nTrue\nrefused\n"), done.err
    assert programs.store.span_names() == ["chat m"]
    (manifest,) = programs.store.manifests()
    assert (manifest["service_name"], manifest["clean_exit"]) == ("program", True)
    (line,) = done.err.splitlines()
    assert f"; show it with: otel-rl report ./otel-rl/{manifest['run_id']} (file:///" in line


def test_steps_and_workers_after_the_start_belong_to_its_run(programs: Programs) -> None:
    done = programs.plain(
        "import multiprocessing, otel_rl\n"
        "def work():\n"
        "    with otel_rl.tool('search'): pass\n"
        "if __name__ == '__main__':\n"
        "    run = otel_rl.start()\n"
        "    with otel_rl.step(1): pass\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=work); worker.start(); worker.join()\n"
        "    print(run)\n"
    )

    assert programs.store.span_names() == ["execute_tool search", "rl.loop", "rl.rank.step"]
    assert {manifest["run_id"] for manifest in programs.store.manifests()} == {done.out.strip()}


def test_an_instrumented_program_that_starts_again_goes_on_as_it_is(programs: Programs) -> None:
    done = programs.instrumented(
        "import os, otel_rl\nprint(otel_rl.start() == os.environ['OTEL_RL_RUN_ID'])\n" + ONE_SPAN
    )

    assert done.out == "True\n"
    assert programs.store.span_names() == ["work"]
    assert len(programs.store.directories) == 1


def test_nothing_is_started_nor_imported_with_telemetry_off(programs: Programs) -> None:
    text = "import sys, otel_rl\nprint(otel_rl.start(), 'opentelemetry.sdk' in sys.modules)\n"
    done = programs.plain(text + ONE_SPAN.partition("\n")[2], OTEL_SDK_DISABLED="true")

    assert (done.code, done.out, done.err) == (0, "None False\n", "")
    assert not programs.store.root.exists()


def test_the_extension_of_ipython_shows_the_command_for_the_report(programs: Programs) -> None:
    done = programs.plain("import otel_rl\notel_rl.load_ipython_extension(None)\n" + ONE_SPAN)

    (manifest,) = programs.store.manifests()
    run = manifest["run_id"]
    folder = programs.store.root / run
    assert done.out == (
        f"otel-rl: recording run {run}; show it with: otel-rl report ./otel-rl/{run} ({folder.as_uri()})\n"
    )


def test_each_kernel_of_an_instrumented_jupyter_is_a_run_of_its_own(programs: Programs) -> None:
    # What Jupyter starts for a notebook: `python -m ipykernel_launcher -f ...` with its own environment.
    programs.write("ipykernel_launcher.py", ONE_SPAN)
    programs.write("jupyter_client/__init__.py", "")
    programs.write("jupyter_client/manager.py", "")
    text = (
        "import subprocess, sys, jupyter_client.manager\n"
        "for name in ('first', 'second'):\n"
        "    environ = {**__import__('os').environ, 'JPY_SESSION_NAME': f'/notebooks/{name}.ipynb'}\n"
        "    subprocess.run([sys.executable, '-m', 'ipykernel_launcher', '-f', 'x.json'], env=environ, check=True)\n"
    )
    done = programs.run(INSTRUMENT, sys.executable, programs.write("jupyter.py", text))

    assert done.code == 0, done.err
    manifests = programs.store.manifests()
    assert len({manifest["run_id"] for manifest in manifests}) == 2
    assert {manifest["service_name"] for manifest in manifests} == {"first", "second"}
    assert [span["name"] for span in programs.store.spans()].count("rl.run") == 2
    assert done.err.splitlines()[-1] == (
        "otel-rl: nothing was recorded of Jupyter itself; each notebook kernel records a run of its own;"
        f" show the newest with: otel-rl report ./otel-rl ({programs.store.root.as_uri()})"
    )
