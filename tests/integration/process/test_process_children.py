"""Which Python children record, and that the others do not notice us."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from process_support import BOOTSTRAP, ONE_SPAN, SHORT, Programs

SHOW = "import sys; print('opentelemetry' in sys.modules)"
RUN_CHILD = (
    ONE_SPAN
    + f"""
import subprocess, sys
done = subprocess.run([sys.executable, "-c", {SHOW!r}], capture_output=True, text=True)
print(done.stdout.strip(), repr(done.stderr))
"""
)


def test_ordinary_child_of_an_instrumented_program_is_left_alone(programs: Programs) -> None:
    assert programs.instrumented(RUN_CHILD).out == "False ''\n"
    assert len(programs.store.directories) == 1


def test_policy_all_records_every_child(programs: Programs) -> None:
    text = ONE_SPAN + f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ONE_SPAN!r}], check=True)"
    programs.instrumented(text, OTEL_RL_CHILDREN="all")

    assert programs.store.span_names() == ["work", "work"]
    assert len(programs.store.directories) == 2


def test_policy_none_leaves_even_ranks_alone(programs: Programs) -> None:
    assert (
        programs.child(sys.executable, "-c", SHOW, RANK="0", TORCHELASTIC_RUN_ID="x", OTEL_RL_CHILDREN="none").out
        == "False\n"
    )


def test_child_of_accelerate_launch_records_without_any_rank(programs: Programs) -> None:
    launcher = programs.write(
        "bin/accelerate", "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True)"
    )
    done = programs.child(sys.executable, launcher, "-c", SHOW)

    assert done.out == "True\n"


def test_program_that_sets_rank_for_itself_does_not_make_its_children_ranks(programs: Programs) -> None:
    done = programs.instrumented(
        "import os; os.environ.update(RANK='0', LOCAL_RANK='0', MASTER_PORT='1')\n" + RUN_CHILD
    )

    assert done.out == "False ''\n"


def test_multiprocessing_in_a_sandbox_is_not_recorded(programs: Programs) -> None:
    sandbox = programs.write(
        "sandbox.py",
        "import multiprocessing, sys\n"
        "def show(): print('opentelemetry' in sys.modules, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=show); process.start(); process.join()\n",
    )
    text = ONE_SPAN + f"import subprocess, sys; subprocess.run([sys.executable, {str(sandbox)!r}], check=True)"

    assert programs.instrumented(text).out == "False\n"


def test_interpreter_that_cannot_import_us_stays_silent(programs: Programs) -> None:
    base = Path(sys.base_prefix, "bin", "python3")
    if not base.exists() or base.resolve() == Path(sys.executable):
        pytest.skip("needs an interpreter without our packages")
    done = programs.child(base, "-c", "print('ran')", OTEL_RL_CHILDREN="all", OTEL_RL_RAISE_INTERNAL_ERRORS="")

    assert (done.code, done.out, done.err) == (0, "ran\n", "")


def test_sitecustomize_of_the_user_runs(programs: Programs) -> None:
    programs.write("own/sitecustomize.py", "print('own sitecustomize')")
    path = os.pathsep.join([str(BOOTSTRAP), str(programs.directory / "own")])

    for children in ("none", "all"):
        done = programs.child(
            sys.executable,
            "-c",
            "import sitecustomize; print(sitecustomize.__file__)",
            PYTHONPATH=path,
            OTEL_RL_CHILDREN=children,
        )
        assert done.out == f"own sitecustomize\n{programs.directory}/own/sitecustomize.py\n"


def test_sitecustomize_of_the_user_runs_in_the_first_process_too(programs: Programs) -> None:
    programs.write("own/sitecustomize.py", "print('own sitecustomize')")
    done = programs.instrumented(ONE_SPAN, PYTHONPATH=str(programs.directory / "own"))

    # Upstream's own sitecustomize hides it here; what the launcher printed is lost when it execs.
    assert done.out == "own sitecustomize\n"
    assert programs.store.span_names() == ["work"]


def test_python_path_of_children_names_our_bootstrap_and_not_upstreams(programs: Programs) -> None:
    done = programs.instrumented("import os; print(os.environ['PYTHONPATH'])")

    folders = done.out.strip().split(os.pathsep)
    assert folders[0] == str(BOOTSTRAP)
    assert not any(folder.endswith("auto_instrumentation") for folder in folders)


def test_ray_worker_records_under_the_drivers_name(programs: Programs) -> None:
    worker = programs.write("default_worker.py", ONE_SPAN)
    programs.child(sys.executable, worker, OTEL_RL_PROCESS="1|driver|")

    assert programs.store.resources()[0]["service.name"] == "driver"


def test_sitecustomize_of_the_user_that_raises_costs_what_it_costs_without_us(programs: Programs) -> None:
    programs.write("own/sitecustomize.py", "raise RuntimeError('mine')")
    without = programs.plain("print('ran')", PYTHONPATH=str(programs.directory / "own"))
    done = programs.instrumented("print('ran')\n" + ONE_SPAN, PYTHONPATH=str(programs.directory / "own"))

    assert (done.code, done.out) == (0, "ran\n")
    # Once in the interpreter that opentelemetry-instrument runs in, once in the program's.
    assert done.err.startswith(without.err * 2)
    assert programs.store.span_names() == ["work"]


@pytest.mark.parametrize(
    "call", ["os.execv(sys.executable, ", "os.execlpe(sys.executable, *", "os.execvp(sys.executable, "]
)
def test_program_that_replaces_itself_goes_on_as_a_later_attempt_and_loses_nothing(
    programs: Programs, call: str
) -> None:
    step = "import otel_rl\nwith otel_rl.step(1): pass\n"
    second = programs.write("second.py", step)
    arguments = f"[sys.executable, {str(second)!r}{', os.environ' if 'lpe' in call else ''}])\n"
    done = programs.instrumented(f"{step}import os, sys\n{call}{arguments}")

    assert done.code == 0, done.err
    manifests = programs.store.manifests()
    assert sorted(one["attempt"] for one in manifests) == ["0.0.0", "0.0.1"]
    assert len({one["run_id"] for one in manifests}) == 1
    roots = [span["spanId"] for span in programs.store.spans() if span["name"] == "rl.loop"]
    assert len(set(roots)) == len(roots) == 2
    assert len(done.err.splitlines()) == 1


def test_a_replacement_that_fails_fails_as_without_us(programs: Programs) -> None:
    text = (
        "import os\n"
        "for call in (lambda: os.execv('/no/such', ['x']), lambda: os.execvp('no-such', ['x']), lambda: os.execv(1)):\n"
        "    try: call()\n"
        "    except Exception as error: print(repr(error))\n"
    )
    plain, instrumented = programs.plain(text), programs.instrumented(text)

    assert plain.code == instrumented.code == 0
    assert instrumented.out == plain.out


def _parent_of_a_worker(work: str, method: str = "spawn") -> str:
    """A program that records nothing itself and runs ``work`` in a child of multiprocessing."""
    return (
        f"{SHORT}import multiprocessing\n"
        f"def run():\n    exec({work!r}, {{}})\n"
        "if __name__ == '__main__':\n"
        f"    worker = multiprocessing.get_context({method!r}).Process(target=run); worker.start(); worker.join()\n"
    )


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_program_whose_children_alone_record_says_where_their_files_are(programs: Programs, method: str) -> None:
    done = programs.instrumented(_parent_of_a_worker(ONE_SPAN, method))

    (directory,) = programs.store.directories
    run = directory.parent
    assert done.err.splitlines() == [
        f"otel-rl: child processes recorded; show it with: otel-rl report ./otel-rl/{run.name} ({run.as_uri()})"
    ]


def test_program_whose_children_record_nothing_says_nothing(programs: Programs) -> None:
    done = programs.instrumented(_parent_of_a_worker("sum(range(10**6))"))

    assert (done.code, done.err) == (0, "")
    assert not (programs.directory / "otel-rl").exists()


def test_files_of_an_earlier_launch_are_not_taken_for_those_of_children(programs: Programs) -> None:
    programs.instrumented(ONE_SPAN, OTEL_RL_RUN_ID="chosen")

    done = programs.instrumented(_parent_of_a_worker("sum(range(10**6))"), OTEL_RL_RUN_ID="chosen")

    assert len(programs.store.directories) == 1
    assert done.err == ""


def test_program_that_is_quiet_does_not_say_that_its_children_recorded(programs: Programs) -> None:
    done = programs.instrumented(_parent_of_a_worker(ONE_SPAN), OTEL_RL_QUIET="1")

    assert len(programs.store.directories) == 1
    assert done.err == ""
