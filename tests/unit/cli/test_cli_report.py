"""``otel-rl`` and ``otel-rl report``: one clear line for every mistake, and nothing imported in vain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from unit.report.synthetic_run import GrpoRun

from otel_rl.cli import main
from otel_rl.core import __version__, settings


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return GrpoRun(tmp_path / "data", steps=2, error=False).write()


def _fails_with_one_line(capsys: Any, *arguments: str) -> str:
    assert main(["report", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("otel-rl report: ")
    return captured.err


def test_the_path_of_the_page_is_all_that_goes_to_stdout(run: Path, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(run), "-o", str(page)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{page}\n"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_first_findings_are_told_in_at_most_three_lines(tmp_path: Path, capsys: Any) -> None:
    run = GrpoRun(tmp_path / "data").write()
    assert main(["report", str(run)]) == 0
    *lines, _ = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("critical: rank 1 failed: torch.OutOfMemoryError: out of memory while saving")
    assert lines[2].startswith("and ")


def test_the_findings_are_silent_where_the_user_wants_quiet(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("OTEL_RL_QUIET", "true")
    settings.reset()
    try:
        assert main(["report", str(GrpoRun(tmp_path / "data").write())]) == 0
    finally:
        monkeypatch.delenv("OTEL_RL_QUIET")
        settings.reset()
    assert capsys.readouterr().err == ""


def test_json_has_the_findings_of_the_page(tmp_path: Path, capsys: Any) -> None:
    run = GrpoRun(tmp_path / "data").write()
    assert main(["report", str(run), "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.err == ""
    assert (found["format"], found["worst"], found["page"]) == (1, "critical", str(run / "report.html"))
    first = found["findings"][0]
    assert (first["code"], first["severity"], first["ranks"], first["onset_step"]) == ("ended", "critical", [1], 20)
    assert "errors" in found["checked"]
    assert found["not_observed"]["rollouts that become slower"] == "no rollout was recorded"
    states = {check["what"]: check for check in found["checks"]}
    assert (states["errors"]["state"], states["errors"]["points"] > 0) == ("checked", True)
    assert states["rollouts that become slower"]["state"] == "does_not_apply"
    assert found["verdict"] is None


@pytest.mark.parametrize(
    ("error", "grave", "status"),
    [(True, "critical", 3), (True, "warning", 3), (False, "critical", 0), (False, "warning", 3)],
)
def test_fail_if_gives_status_3_from_the_severity_on(tmp_path: Path, error: bool, grave: str, status: int) -> None:
    # Without the uncaught exception the run still has failed tools: a warning.
    run = GrpoRun(tmp_path / "data", steps=8, error=error).write()
    assert main(["report", str(run), "--fail-if", grave]) == status
    assert (run / "report.html").exists()


def test_the_data_directory_of_the_environment_is_the_default(run: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("OTEL_RL_DATA_DIR", str(run.parent))
    assert main(["report"]) == 0
    assert capsys.readouterr().out == f"{run / 'report.html'}\n"


def test_the_default_directory_is_named_when_it_is_missing(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.delenv("OTEL_RL_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert "otel-rl: no such folder; expected a folder written by otel-rl" in _fails_with_one_line(capsys)


def test_the_newest_of_several_runs_is_shown_and_the_others_named(run: Path, tmp_path: Path, capsys: Any) -> None:
    GrpoRun(run.parent, run_id="older", steps=1, error=False, started=1_600_000_000_000_000_000).write()
    assert main(["report", str(run.parent), "-o", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path / 'report.html'}\n"
    assert captured.err.startswith(f"otel-rl report: this is run {run.name}; choose with --run: older\n")


def test_unreadable_lines_are_told_in_one_line(run: Path, capsys: Any) -> None:
    with next(run.glob("*rank0*/logs-0001.jsonl")).open("a") as stream:
        stream.write('{"resourceLogs": [')
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().err.startswith("otel-rl report: not read: 1 line cut off at the end of a file\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "missing: no such folder"),
        (["file.txt"], "is a file; give the folder it lies in"),
        (["empty"], "empty is empty; expected a folder written by otel-rl"),
        (["foreign"], "foreign holds no telemetry; expected a folder written by otel-rl"),
        (["data", "--run", "nope"], "holds no run nope; it holds: grpo-7f3a"),
        (["data/grpo-7f3a", "--run", "nope"], "holds run grpo-7f3a, not nope"),
        (["data", "-o", "not/there.html"], "cannot write not/there.html: not is no folder; create it first"),
        (["data", "-o", "/proc/page.html"], "cannot write /proc/page.html: "),
    ],
)
def test_each_mistake_gets_one_line_that_says_what_to_do(
    run: Path, tmp_path: Path, monkeypatch: Any, capsys: Any, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").touch()
    assert message in _fails_with_one_line(capsys, *arguments)


@pytest.mark.parametrize("module", ["bokeh", "jinja2", "numpy"])
def test_a_missing_extra_is_named_with_its_install_command(run: Path, module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from otel_rl.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "report", str(run)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    fix = f"pip install {module}, or install otel-rl with its extra `report`"
    assert done.stderr == f"otel-rl report: needs {module}, which is not installed: {fix}\n"


_WITHOUT_EXTRA = (
    "import sys; sys.modules.update(dict.fromkeys(['bokeh', 'jinja2', 'markupsafe', 'numpy', 'tqdm']));"
    " from otel_rl.cli import main; sys.exit(main())"
)


@pytest.mark.parametrize("more", [[], ["--json"], ["--fail-if", "warning"]])
def test_a_report_without_its_extra_is_one_line_and_no_page(run: Path, more: list[str]) -> None:
    command = [sys.executable, "-c", _WITHOUT_EXTRA, "report", str(run), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("otel-rl report: needs ")
    assert done.stderr.endswith("or install otel-rl with its extra `report`\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["postmortem", "trajectories"])
def test_other_commands_do_without_the_extra_of_the_report(run: Path, command: str) -> None:
    command_line = [sys.executable, "-c", _WITHOUT_EXTRA, command, str(run)]
    done = subprocess.run(command_line, capture_output=True, text=True, check=False)
    assert "not installed" not in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_command_and_imports_none(capsys: Any) -> None:
    code = (
        "import sys; from otel_rl.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'bokeh', 'jinja2', 'opentelemetry', 'otel_rl.report', 'otel_rl.cli.doctor'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "report " in done.stdout
    assert "doctor " in done.stdout


def test_the_version_is_told(capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"otel-rl {__version__}\n"


def test_without_arguments_the_help_is_shown(capsys: Any) -> None:
    assert main([]) == 0
    captured = capsys.readouterr()
    assert "report " in captured.out
    assert captured.err == ""


def test_an_address_to_click_on_is_shown_with_the_findings(tmp_path: Path, capsys: Any) -> None:
    run = GrpoRun(tmp_path / "a folder", steps=2, error=False).write()
    assert main(["report", str(run)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{run / 'report.html'}\n"
    address = captured.err.splitlines()[-1].removeprefix("open ")
    assert address.startswith("file:///")
    assert Path(url2pathname(urlsplit(address).path)) == run / "report.html"


@pytest.mark.parametrize("arguments", [["unknown"], ["report", "--nonsense"]])
def test_a_wrong_command_line_is_refused_with_usage(arguments: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: otel-rl" in capsys.readouterr().err


def test_the_installed_program_works(run: Path) -> None:
    program = Path(sys.executable).with_name("otel-rl")
    done = subprocess.run([program, "report", run], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert Path(done.stdout.strip()).is_file()


@pytest.mark.parametrize("command", ["report", "trajectories", "postmortem"])
def test_several_folders_are_refused_with_the_newest_first_and_what_to_do(
    tmp_path: Path, capsys: Any, command: str
) -> None:
    data = tmp_path / "data"
    for number in range(7):
        process = data / f"run{number}" / "host-rank0"
        process.mkdir(parents=True)
        os.utime(process, (number, number))
    (data / "notes.txt").touch()
    assert main([command, *sorted(str(run) for run in data.iterdir())]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    named = " ".join(str(data / f"run{number}") for number in (6, 5, 4, 3, 2))
    assert line == (
        f"otel-rl {command}: 7 folders are given, and it reads one: name one of these, newest first: {named} and 2 more"
        f"; or give {data}, of which the newest run is read"
    )


@pytest.mark.parametrize("behind", [True, False])
def test_the_folder_may_stand_before_and_behind_the_options(run: Path, tmp_path: Path, *, behind: bool) -> None:
    options = ["-o", str(tmp_path / "page.html")]
    assert main(["report", *options, str(run)] if behind else ["report", str(run), *options]) == 0
    assert (tmp_path / "page.html").exists()
