"""Notebooks on real kernels: which cell failed, whether the notebook went on, and what the run is called."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from process_support import INSTRUMENT, SCRIPTS

if TYPE_CHECKING:
    from process_support import Finished, Programs

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

SCORE = "def score(sample):\n    return sample['reward']"
FAILS = "sample = {}\nscore(sample)"


def execute(programs: Programs, name: str, *cells: str, instrumented: bool = True, options: str = "") -> Finished:
    """Run the cells as ``jupyter execute`` does."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    path = programs.directory / name
    nbformat.write(notebook, path)
    # The kernel is the interpreter of the tests, whatever kernels are installed for the user.
    programs.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    programs.environ["PATH"] = f"{SCRIPTS}{os.pathsep}{programs.environ['PATH']}"
    command = [INSTRUMENT] if instrumented else []
    return programs.run(*command, SCRIPTS / "jupyter-execute", *options.split(), path)


def of_kernel(programs: Programs) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The manifest of the only kernel, and the findings of its run."""
    (manifest,) = [one for one in programs.store.manifests() if one["command"].startswith("-m ipykernel")]
    folder = programs.store.root / manifest["run_id"]
    done = programs.otel_rl("report", folder, "--json")
    return manifest, json.loads(done.out)["findings"]


def test_the_cell_that_ended_a_notebook_is_critical_with_its_exception_and_line(programs: Programs) -> None:
    done = execute(programs, "my rewards.ipynb", "x = 1", SCORE, FAILS, "print('never')")
    assert done.code != 0

    manifest, (finding,) = of_kernel(programs)
    assert manifest["service_name"] == "my rewards"
    assert finding["severity"] == "critical"
    who = f"my rewards {manifest['pid']}"
    assert finding["text"] == f"{who} failed in cell 3, its last: KeyError: 'reward' (Cell In[2], line 2, in score)."
    assert finding["symptoms"] == []


LOOP = """
import time, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def test_the_pause_between_two_cells_is_part_of_no_guessed_step(programs: Programs) -> None:
    last = "train()\nopen('moment', 'w').write(str(moment))"
    done = execute(programs, "loop.ipynb", LOOP, "train()\nmoment = time.time_ns()", last)
    assert done.code == 0, done.err

    moment = int((programs.directory / "moment").read_text())
    first, second = sorted(
        int(span["startTimeUnixNano"]) for span in programs.store.spans() if span["name"] == "rl.rank.step"
    )
    assert first < moment < second


def test_a_cell_that_fails_in_a_notebook_that_goes_on_is_a_warning(programs: Programs) -> None:
    done = execute(
        programs,
        "score.ipynb",
        "%load_ext otel_rl\nimport otel_rl",
        SCORE,
        "with otel_rl.step(7):\n    score({})",
        "with otel_rl.step(8): pass",
        instrumented=False,
        options="--allow-errors",
    )
    assert done.code == 0, done.err

    manifest, findings = of_kernel(programs)
    assert (manifest["service_name"], manifest["clean_exit"]) == ("score", True)
    (finding,) = [one for one in findings if one["severity"] != "notice"]
    assert (finding["code"], finding["severity"], finding["onset_step"]) == ("cell_failed", "warning", 7)
    assert finding["text"].endswith(
        ": cell 3 failed: KeyError: 'reward' (Cell In[2], line 2, in score); the notebook went on."
    )


def test_cells_that_cannot_be_compiled_are_counted_too_and_visual_studio_code_gives_the_run_its_name(
    programs: Programs,
) -> None:
    execute(
        programs, "typos.ipynb", "__vsc_ipynb_file__ = '/home/me/grpo.ipynb'", "%load_ext otel_rl", "1 +",
        "def f(:\n    pass", "x = 1", instrumented=False, options="--allow-errors",
    )  # fmt: skip
    manifest, found = of_kernel(programs)
    (finding,) = [one for one in found if one["code"] == "cell_failed"]
    assert manifest["service_name"] == "grpo"
    assert ": 2 cells failed, the last of them cell 4: SyntaxError: " in finding["text"]
    assert "(Cell In[4], line 1)" in finding["text"]
