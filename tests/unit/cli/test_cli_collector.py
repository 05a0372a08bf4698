"""`otel-rl collector config` as a user meets it: what it prints, and what it refuses with which words."""

from __future__ import annotations

import shlex
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from otel_rl.cli import main
from otel_rl.collector.parts import choices

pytest.importorskip("ruamel.yaml")

from ruamel.yaml import YAML

from otel_rl.collector.parts import merge

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("no_program")


def refusal(capsys: Any, *arguments: str, action: str = "config") -> str:
    assert main(["collector", action, *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return str(said.err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--role", "gatway"], "no role named 'gatway'; did you mean gateway?"),
        (["--role", "x"], "no role named 'x'; there are local, agent, gateway"),
        (["--role", "local", "--sink", "lgmt"], "no sink named 'lgmt'; did you mean lgtm?"),
        (["--role", "local", "--with", "debugg"], "no option named 'debugg'; did you mean debug?"),
        (["--role", "gateway"], "a gateway needs a sink, else nothing leaves it; add --sink file|"),
        (
            ["--role", "gateway", "--sink", "mlflow"],
            "a gateway needs a sink for metrics and logs, since mlflow takes traces only; add --sink file|lgtm|otlp",
        ),
        (
            ["--role", "agent", "--sink", "lgtm"],
            "sink lgtm does not fit role agent, only local and gateway: an agent ships",
        ),
        (["--role", "agent", "--with", "strict"], "option strict does not fit role agent, only gateway: only gateways"),
        (
            ["--role", "gateway", "--sink", "file", "--with", "content", "trusted-senders"],
            "trusted-senders and content cannot be combined: without redaction at this gateway",
        ),
        (
            ["--role", "local", "--gateways", "2"],
            "--gateways fits the roles agent and gateway; role local sends nothing",
        ),
        (["--role", "agent", "--gateways", "0"], "--gateways 0 is not between 1 and 256"),
        (["--role", "agent", "--gateways", "257"], "--gateways 257 is not between 1 and 256"),
        (
            ["--role", "gateway", "--sink", "otlp"],
            "OTEL_RL_COLLECTOR_OTLP_ENDPOINT is not set and has no default; set it",
        ),
        (["--role", "agent", "--gateways", "1"], "OTEL_RL_COLLECTOR_GATEWAY_1 is not set and has no default; set it"),
    ],
)
def test_a_choice_that_cannot_work_is_refused_with_the_reason_and_the_fix(
    capsys: Any, arguments: list[str], message: str
) -> None:
    assert f"otel-rl collector config: {message}" in refusal(capsys, *arguments)


def test_every_missing_variable_is_named_at_once(capsys: Any) -> None:
    said = refusal(capsys, "--role", "agent", "--gateways", "3")
    assert [f"OTEL_RL_COLLECTOR_GATEWAY_{number} is not set" in said for number in (1, 2, 3)] == [True] * 3


def test_for_another_machine_its_variables_are_not_asked_for(capsys: Any) -> None:
    assert main(["collector", "config", "--role", "agent", "--gateways", "2", "--no-validate"]) == 0
    said = capsys.readouterr()
    assert "${env:OTEL_RL_COLLECTOR_GATEWAY_2}" in said.out
    assert said.err == ""


def test_the_printed_file_says_how_it_was_made_and_is_what_the_parts_merge_to(capsys: Any) -> None:
    assert main(["collector", "config", "--role", "gateway", "--sink", "lgtm", "file", "--with", "debug"]) == 0
    printed = capsys.readouterr().out
    head = printed.partition("\n\n")[0]
    assert "otel-rl collector config --role gateway --sink lgtm file --with debug" in head
    assert "OpenTelemetry Collector 0." in head
    selection = choices.select("gateway", ["lgtm", "file"], ["debug"])
    for part in choices.sources(selection):
        assert f"#   {part.name}: " in head
        assert f"# from {part.name}\n" in printed
    assert YAML(typ="safe").load(printed) == merge.merge(choices.sources(selection))


def test_repeated_and_separate_flags_are_one_choice(capsys: Any) -> None:
    assert main(["collector", "config", "--role", "local", "--with", "debug", "--with", "debug", "content"]) == 0
    assert "--role local --with debug content\n" in capsys.readouterr().out


def test_without_the_program_it_says_that_only_its_own_checks_ran(capsys: Any) -> None:
    assert main(["collector", "config", "--role", "local"]) == 0
    assert "only the checks of this command ran; build it with `otel-rl collector build`" in capsys.readouterr().err


def program(folder: Path, script: str) -> Path:
    file = folder / "otelcol-rl"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def test_what_the_program_does_not_accept_is_refused_in_its_words(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = program(tmp_path, 'echo "Error: the queue is wrong" >&2; exit 1')
    monkeypatch.setenv("OTEL_RL_COLLECTOR_BINARY", str(found))
    assert "otelcol-rl does not accept this configuration: Error: the queue is wrong" in refusal(
        capsys, "--role", "local"
    )


def test_a_program_of_another_machine_is_refused_with_what_to_do(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = tmp_path / "otelcol-rl"
    found.write_bytes(b"\x7fELF of another machine")
    found.chmod(0o755)
    monkeypatch.setenv("OTEL_RL_COLLECTOR_BINARY", str(found))
    said = refusal(capsys, "--role", "local")
    assert "otelcol-rl cannot be started: Exec format error; build it with" in said


def test_the_program_gets_to_see_the_printed_file_and_nobody_else_does(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = shlex.quote(sys.executable)
    found = program(tmp_path, f'{python} -c "import shutil,sys; shutil.copy2(sys.argv[1], \\"seen\\")" "$3"')
    monkeypatch.setenv("OTEL_RL_COLLECTOR_BINARY", str(found))
    assert main(["collector", "config", "--role", "local"]) == 0
    assert (tmp_path / "seen").read_text() == capsys.readouterr().out
    assert stat.S_IMODE((tmp_path / "seen").stat().st_mode) == 0o600


def test_a_variable_that_names_no_program_is_refused(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RL_COLLECTOR_BINARY", "/nowhere/otelcol-rl")
    assert "OTEL_RL_COLLECTOR_BINARY=/nowhere/otelcol-rl is no program" in refusal(capsys, "--role", "local")


def test_output_goes_to_a_file_that_only_this_user_can_read(capsys: Any, tmp_path: Path) -> None:
    target = tmp_path / "new" / "collector.yaml"
    assert main(["collector", "config", "--role", "local", "--output", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert YAML(typ="safe").load(target.read_text())["service"]


def test_run_without_the_program_says_how_to_get_it(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GRPC_PORT", "HTTP_PORT", "METRICS_PORT"):
        monkeypatch.setenv(f"OTEL_RL_COLLECTOR_{variable}", "0")
    monkeypatch.setenv("OTEL_RL_COLLECTOR_HEALTH_ENDPOINT", "127.0.0.1:0")
    assert "otelcol-rl was not found; build it with" in refusal(capsys, "--role", "local", action="run")


PASSWORD = "S3cr3tPassw0rd"


@pytest.mark.parametrize(
    ("arguments", "variable", "value"),
    [
        ("gateway --sink lgtm", "LOKI_URL", f"team:{PASSWORD}@127.0.0.1:3100"),
        ("gateway --sink lgtm", "LOKI_URL", f"http://team:{PASSWORD}/x@127.0.0.1:3100"),
        ("gateway --sink lgtm", "TEMPO_URL", f"ftp://127.0.0.1/p?token={PASSWORD}"),
        ("local --sink mlflow", "MLFLOW_URL", f"team:{PASSWORD}@127.0.0.1:5000"),
        ("gateway --sink lgtm --with tls", "TEMPO_URL", f"http://team:{PASSWORD}@tempo.invalid"),
        ("gateway --sink otlp", "OTLP_ENDPOINT", f"team:{PASSWORD}@vendor.invalid:4317"),
        ("agent", "GATEWAY", f"{PASSWORD}@gateway:4317"),
        ("local", "HEALTH_ENDPOINT", f"http://a:{PASSWORD}@127.0.0.1"),
    ],
)
def test_no_refusal_shows_a_password_of_an_address(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, arguments: str, variable: str, value: str
) -> None:
    monkeypatch.setenv(f"OTEL_RL_COLLECTOR_{variable}", value)
    for action in ("config", "run"):
        said = refusal(capsys, "--role", *arguments.split(), action=action)
        assert PASSWORD not in said
    assert variable in said or "durable_otlp_http/tempo sends everything to http://tempo.invalid" in said


def test_the_words_of_the_program_show_no_password(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = program(tmp_path, f"echo 'Error: parse \"http://team:{PASSWORD}@host/otlp\": refused' >&2; exit 1")
    monkeypatch.setenv("OTEL_RL_COLLECTOR_BINARY", str(found))
    assert 'Error: parse "http://host/otlp": refused' in refusal(capsys, "--role", "local")


def test_the_missing_extra_is_named_with_its_install_command() -> None:
    code = "import sys; sys.modules['ruamel'] = None; from otel_rl.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "collector", "config", "--role", "local"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "needs ruamel.yaml, which is not installed: pip install ruamel.yaml, or install otel-rl" in done.stderr


def test_help_lists_every_choice_with_the_roles_that_it_fits(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["collector", "config", "--help"])
    shown = capsys.readouterr().out
    for name, one in {**choices.SINKS, **choices.OPTIONS}.items():
        assert f"  {name:<16} {one.brief} ({', '.join(one.roles)})" in shown
