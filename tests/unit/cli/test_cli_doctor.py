"""``otel-rl doctor`` tells what would happen, and with a command what did."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement

from otel_rl.cli import main
from otel_rl.cli.doctor import installed_instrumentors

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("no_variables")


def _installed(monkeypatch: pytest.MonkeyPatch, *found: EntryPoint) -> None:
    monkeypatch.setattr(installed_instrumentors, "entry_points", lambda group: list(found))


def _doctor(capsys: Any, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("one_library")
def test_with_no_configuration_files_are_written_below_the_working_directory(tmp_path: Path, capsys: Any) -> None:
    code, found = _doctor(capsys)
    assert code == 0
    assert found["problems"] == []
    assert found["data_directory"] == {"path": str(tmp_path / "otel-rl"), "used": True, "writable": True}
    assert {one["exporter"] for exporters in found["signals"].values() for one in exporters} == {"otel_rl_file"}
    assert found["instrumentors"]["otel_rl_openai"]["state"] == "ready"
    assert not (tmp_path / "otel-rl").exists()


@pytest.mark.usefixtures("one_library")
def test_a_data_directory_that_cannot_be_written_is_a_problem(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OTEL_RL_DATA_DIR", str(tmp_path / "file" / "data"))
    code, found = _doctor(capsys)
    assert code == 1
    assert "cannot be written" in found["problems"][0]
    assert "set OTEL_RL_DATA_DIR to a folder that can" in found["problems"][0]


@pytest.mark.usefixtures("one_library")
def test_values_that_cannot_be_parsed_and_a_disabled_sdk_are_problems(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("OTEL_RL_SLOWEST", "many")
    monkeypatch.setenv("OTEL_RL_REDACT", "privacy")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    code, found = _doctor(capsys)
    assert code == 1
    assert any('OTEL_RL_SLOWEST="many" is not valid' in one for one in found["problems"])
    assert any('OTEL_RL_REDACT="privacy" cannot be used' in one for one in found["problems"])
    assert "OTEL_SDK_DISABLED is set: nothing is recorded" in found["problems"]


def test_libraries_are_judged_by_their_installed_version(monkeypatch: Any, capsys: Any) -> None:
    versions = {"openai": "0.9.0"}
    monkeypatch.setattr(installed_instrumentors, "installed", versions.get)
    _installed(
        monkeypatch,
        EntryPoint("otel_rl_openai", "otel_rl.instrumentors.openai:OpenAIInstrumentor", installed_instrumentors.GROUP),
        EntryPoint("otel_rl_trl", "otel_rl.instrumentors.trl:TRLInstrumentor", installed_instrumentors.GROUP),
        EntryPoint("otel_rl_gone", "otel_rl.instrumentors.gone:Gone", installed_instrumentors.GROUP),
    )
    code, found = _doctor(capsys)
    states = found["instrumentors"]
    assert code == 1
    assert (states["otel_rl_openai"]["state"], states["otel_rl_openai"]["installed"]) == ("skipped", "openai 0.9.0")
    assert "installed is openai 0.9.0" in states["otel_rl_openai"]["reason"]
    assert (states["otel_rl_trl"]["state"], states["otel_rl_trl"]["reason"]) == ("skipped", "library not installed")
    assert states["otel_rl_gone"]["state"] == "failed"
    assert [one.partition(":")[0] for one in found["problems"]] == ["otel_rl_gone", "otel_rl_openai"]


def _not_covered(monkeypatch: Any, capsys: Any, versions: dict[str, str]) -> list[str]:
    monkeypatch.setattr(installed_instrumentors, "installed", versions.get)
    return [f"{row['name']} {row['version']}" for row in _doctor(capsys)[1]["not_covered"]]


@pytest.mark.usefixtures("one_library")
def test_frameworks_that_nothing_instruments_are_named_with_what_is_recorded_anyway(
    monkeypatch: Any, capsys: Any
) -> None:
    versions = {"composer": "0.9", "lightning": "2.6", "smolagents": "1.1", "wandb": "0.2", "accelerate": "1"}

    versions["openrlhf"] = "0.11"
    expected = ["composer 0.9", "openrlhf 0.11", "smolagents 1.1", "wandb 0.2"]
    assert _not_covered(monkeypatch, capsys, versions) == expected
    assert _not_covered(monkeypatch, capsys, {}) == []
    main(["doctor"])
    assert "not covered" not in capsys.readouterr().out
    monkeypatch.setattr(installed_instrumentors, "installed", versions.get)
    main(["doctor"])
    said = capsys.readouterr().out
    assert "`with otel_rl.step(number):`" in said
    assert "that it logs to a tracker" in said


def test_what_an_instrumentor_of_others_or_a_covered_trainer_does_is_not_called_uncovered(
    monkeypatch: Any, capsys: Any
) -> None:
    versions = {"smolagents": "1.1", "accelerate": "1.15", "trl": "1.16", "openai-agents": "0.3"}
    _installed(monkeypatch, EntryPoint("otel_rl_trl", "otel_rl.instrumentors.trl:TRLInstrumentor", "x"))
    monkeypatch.setattr(
        installed_instrumentors, "_requirements", lambda _: [Requirement("trl<2"), Requirement("SmolAgents>=1")]
    )

    assert _not_covered(monkeypatch, capsys, versions) == ["openai-agents 0.3"]


def test_of_each_library_that_trains_it_says_how_steps_are_known_and_what_is_recorded(
    monkeypatch: Any, capsys: Any
) -> None:
    names = ("lightning:LightningInstrumentor", "deepspeed:DeepSpeedInstrumentor", "accelerate:AccelerateInstrumentor")
    names += ("torch_training:TorchTrainingInstrumentor", "openai:OpenAIInstrumentor")
    _installed(
        monkeypatch,
        *(EntryPoint(f"otel_rl_{one.partition(':')[0]}", f"otel_rl.instrumentors.{one}", "x") for one in names),
    )
    versions = {"lightning": "2.6", "accelerate": "1.15", "torch": "2.13", "openai": "2"}
    monkeypatch.setattr(installed_instrumentors, "installed", versions.get)

    main(["doctor"])

    _, _, table = capsys.readouterr().out.partition("training loops of")
    table = table.partition("\n\n")[0]
    assert [line.split()[:2] for line in table.splitlines()[2:]] == [
        ["accelerate", "guessed"],
        ["lightning", "known"],
        ["torch_training", "guessed"],
    ]
    assert "Accelerator.log" in table
    assert "evaluation, checkpoint" in table


@pytest.mark.usefixtures("one_library")
def test_a_disabled_instrumentor_is_skipped_with_the_variable_named(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "otel_rl_openai")
    code, found = _doctor(capsys)
    assert code == 0
    assert found["instrumentors"]["otel_rl_openai"]["reason"] == "disabled by OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"


@pytest.mark.usefixtures("one_library")
def test_the_text_reads_without_colour(capsys: Any) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["signal", "exporter", "goes", "to", "answers"] in rows
    assert any(row[:2] == ["otel_rl_openai", "ready"] for row in rows)
    assert text.endswith("no problems found\n")


def test_a_program_is_run_and_what_it_really_instrumented_is_told(tmp_path: Path, capfd: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text("import openai, sys; print('said', sys.argv[1:])")
    main(["doctor", "--json", "--", sys.executable, str(program), "--flag", "secret-value"])
    captured = capfd.readouterr()
    found = json.loads(captured.out)
    assert "said ['--flag', 'secret-value']" in captured.err
    assert "secret-value" not in captured.out
    assert found["command"]["exit_code"] == 0
    assert found["command"]["reported"] is True
    assert found["instrumentors"]["otel_rl_openai"]["state"] == "active"
    assert found["instrumentors"]["otel_rl_mcp"]["state"] == "waiting"


def test_a_library_that_is_not_installed_is_said_to_be_so_of_a_program_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    installed = installed_instrumentors.installed
    monkeypatch.setattr(installed_instrumentors, "installed", lambda name: None if name == "mcp" else installed(name))
    program = tmp_path / "program.py"
    program.write_text("print('runs')")
    main(["doctor", "--json", "--", sys.executable, str(program)])
    found = json.loads(capfd.readouterr().out)["instrumentors"]["otel_rl_mcp"]
    assert (found["state"], found["reason"]) == ("skipped", "library not installed")


@pytest.mark.parametrize(("text", "said"), [("", True), ("import openai", False)], ids=["nothing", "a client"])
def test_a_program_that_imports_no_instrumented_library_is_said_to_do_so(
    tmp_path: Path, capfd: Any, *, text: str, said: bool
) -> None:
    program = tmp_path / "program.py"
    program.write_text(text)
    main(["doctor", "--", sys.executable, str(program)])
    assert ("; nothing of it is instrumented: it imported none of these libraries" in capfd.readouterr().out) is said


@pytest.mark.parametrize("separator", [["--"], []], ids=["with separator", "without"])
def test_all_words_from_the_program_on_are_its_own(tmp_path: Path, capfd: Any, separator: list[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print('said', sys.argv[1:])")
    main(["doctor", *separator, sys.executable, "-u", str(program), "--lr", "3", "--json", "--help", "--", "-x"])
    assert "said ['--lr', '3', '--json', '--help', '--', '-x']" in capfd.readouterr().out


@pytest.mark.usefixtures("one_library")
@pytest.mark.parametrize("missing", ["file", "package"])
def test_a_configuration_file_that_a_run_cannot_use_is_a_problem_and_the_real_destinations_are_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any, missing: str
) -> None:
    if missing == "package":
        (tmp_path / "otel.yaml").write_text("")
        installed = installed_instrumentors.installed
        monkeypatch.setattr(
            installed_instrumentors, "installed", lambda name: None if "configuration" in name else installed(name)
        )
    monkeypatch.setenv("OTEL_CONFIG_FILE", "otel.yaml")
    code, found = _doctor(capsys)
    assert code == 1
    [problem] = found["problems"]
    assert "goes by the other variables" in problem
    assert found["data_directory"]["used"]


@pytest.mark.parametrize(
    ("end", "code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)], ids=["exit", "SIGKILL"]
)
def test_a_program_that_fails_is_a_problem_with_the_exit_code_of_a_shell(
    tmp_path: Path, capfd: Any, end: str, code: int
) -> None:
    program = tmp_path / "program.py"
    program.write_text(end)
    assert main(["doctor", "--", sys.executable, str(program)]) == 1
    assert f"ended with exit code {code}" in capfd.readouterr().out


def test_a_program_that_does_not_exist_is_named(capsys: Any) -> None:
    assert main(["doctor", "--", "no-such-program"]) == 2
    assert capsys.readouterr().err == "otel-rl doctor: no-such-program: no such program; check its name\n"
