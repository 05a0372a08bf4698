"""Every OTEL_RL_* variable, parsed once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from otel_rl.core import settings
from otel_rl.telemetry import content_capture


def load(**environ: str) -> tuple[settings.Settings, list[str]]:
    return settings.load(environ)


def test_the_rules_file_is_found_from_where_the_process_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, _ = load(OTEL_RL_HEALTH_RULES="rules.yaml")

    assert found.health_rules == str(tmp_path / "rules.yaml")


def test_nothing_set_gives_the_defaults():
    assert load() == (settings.Settings(), [])


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("OTEL_RL_RUN_ID", "nightly", "run_id", "nightly"),
        ("OTEL_RL_DATA_DIR", "/data", "data_directory", "/data"),
        ("OTEL_RL_QUIET", "1", "quiet", True),
        ("OTEL_RL_QUIET", "No", "quiet", False),
        ("OTEL_RL_CHILDREN", "ALL", "children", "all"),
        ("OTEL_RL_FILE_MAX_BYTES", "1000", "file_max_bytes", 1000),
        ("OTEL_RL_FILE_MAX_BYTES", "1.5KiB", "file_max_bytes", 1536),
        ("OTEL_RL_DATA_MAX_BYTES", "2GB", "data_max_bytes", 2_000_000_000),
        ("OTEL_RL_EXIT_TIMEOUT", "0.5", "exit_timeout", 0.5),
        ("OTEL_RL_COLLECTIVES", "off", "collectives", "off"),
        ("OTEL_RL_SLOWEST", "0", "slowest", 0),
        ("OTEL_RL_HEALTH_RULES", "/rules.yaml", "health_rules", "/rules.yaml"),
        ("OTEL_RL_HEALTH_RULES", "Off", "health_rules", "off"),
        ("OTEL_RL_ROLE", "engine", "role", "engine"),
        ("OTEL_RL_ALGORITHM", "grpo", "algorithm", "grpo"),
        ("OTEL_RL_STATUS_FILE", "s.json", "status_file", "s.json"),
        ("OTEL_RL_RAISE_INTERNAL_ERRORS", "true", "raise_internal_errors", True),
    ],
)
def test_each_variable_is_parsed(variable, text, field, value):
    parsed, lines = load(**{variable: text})

    assert getattr(parsed, field) == value
    assert lines == []


@pytest.mark.parametrize(
    ("variable", "text", "default"),
    [
        ("OTEL_RL_QUIET", "perhaps", "false"),
        ("OTEL_RL_CHILDREN", "some", "launchers"),
        ("OTEL_RL_FILE_MAX_BYTES", "-5", "16MiB"),
        ("OTEL_RL_DATA_MAX_BYTES", "manyMiB", "1GiB"),
        ("OTEL_RL_EXIT_TIMEOUT", "nan", "1.5"),
        ("OTEL_RL_EXIT_TIMEOUT", "inf", "1.5"),
        ("OTEL_RL_SLOWEST", "1.5", "5"),
    ],
)
def test_value_that_cannot_be_parsed_costs_one_line_and_the_default_is_used(variable, text, default):
    parsed, lines = load(**{variable: text})

    assert parsed == settings.Settings()
    (line,) = lines
    assert f'{variable}="{text}"' in line
    assert "accepted:" in line
    assert f"using {default}" in line


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OTEL_RL_SLOWST", "OTEL_RL_SLOWEST"),
        ("OTEL_RL_REDCAT", "OTEL_RL_REDACT"),
        ("OTEL_RL_RUNID", "OTEL_RL_RUN_ID"),
        ("OTEL_RL_DATA_DIRECTORY", "OTEL_RL_DATA_DIR"),
        ("OTEL_RL_ROLLOUT_FUNCTION", "OTEL_RL_ROLLOUT_FUNCTIONS"),
    ],
)
def test_a_misspelt_variable_costs_one_line_with_the_name_that_was_meant(name, meant):
    found, complaints = settings.load({name: "1"})
    assert found == settings.Settings()
    assert complaints == [f"otel-rl: {name} is set, but nothing reads it; did you mean {meant}?"]


def test_an_unknown_variable_without_a_near_name_costs_one_line_too_and_many_cost_few():
    assert settings.load({"OTEL_RL_OF_MY_SITE": "1"})[1] == [
        "otel-rl: OTEL_RL_OF_MY_SITE is set, but nothing reads it; docs/configuration.md lists what is read"
    ]
    complaints = settings.load({f"OTEL_RL_QUUX_{number}": "1" for number in range(40)})[1]
    assert len(complaints) == 6
    assert complaints[-1] == "otel-rl: nothing reads 35 more"


def test_only_an_unknown_name_costs_the_import_of_what_compares_names():
    text = (
        "import sys; from otel_rl.core import settings\n"
        "settings.load({'OTEL_RL_SLOWEST': '1', 'OTEL_SERVICE_NAMES': 'x', 'OTEL_RL_STACK_X': '1'})\n"
        "print('difflib' in sys.modules); settings.load({'OTEL_RL_X': '1'}); print('difflib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_variables_of_other_parts_and_of_others_are_left_alone():
    others = (
        "OTEL_RL_COLLECTOR_GRPC_PORT",
        "OTEL_RL_STACK_TEMPO_PORT",
        "OTEL_RL_LAUNCH",
        "OTEL_SERVICE_NAMES",
        "RUN_ID",
    )
    assert settings.load(dict.fromkeys(others, "1"))[1] == []


def test_a_wrong_mode_of_content_costs_one_line_and_the_modes_are_known():
    name = content_capture.CAPTURE_ENVIRONMENT_VARIABLE
    [complaint] = settings.load({name: "SPAN"})[1]
    assert complaint.startswith(f'otel-rl: {name}="SPAN" is not valid (accepted: NO_CONTENT, SPAN_ONLY, ')
    for mode in (*content_capture._MODES, "no_content", "false", ""):
        assert settings.load({name: mode})[1] == []


def test_empty_variable_counts_as_unset():
    assert load(OTEL_RL_EXIT_TIMEOUT="  ") == (settings.Settings(), [])


def test_every_field_has_a_variable_of_its_own():
    assert set(settings.VARIABLES) == set(settings.Settings.__dataclass_fields__)
    names = [variable.name for variable in settings.VARIABLES.values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("field", "variable"), settings.VARIABLES.items())
def test_default_as_the_manual_writes_it_is_accepted_and_means_the_default(field, variable):
    if variable.default.startswith("("):
        assert getattr(settings.Settings(), field) is None
        return
    default = getattr(settings.Settings(), field)
    parsed = variable.parse(variable.default)

    assert parsed == default or Path(parsed) == Path(default)


def test_every_variable_that_the_package_reads_is_in_the_table():
    own = re.compile(r"[\"'`](OTEL_RL_[A-Z_]+)[\"'`]")
    package = Path(settings.__file__).parent
    read = {name for path in package.rglob("*.py") for name in own.findall(path.read_text())}
    read = {name for name in read if not name.startswith((*settings._OTHERS, "OTEL_RL_COLLECTOR", "OTEL_RL_STACK"))}
    read.discard(settings._PREFIX)

    assert read <= {variable.name for variable in settings.VARIABLES.values()}


def test_settings_and_stderr_import_nothing_of_the_package():
    for module in ("settings", "stderr"):
        show = f"import otel_rl.core, sys; old = set(sys.modules); import otel_rl.core.{module};"
        show += "print(*set(sys.modules) - old)"
        done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, timeout=300)
        imported = {name for name in done.stdout.split() if name.startswith("otel_rl")}

        assert imported == {f"otel_rl.core.{module}"}


def test_complaints_are_handed_out_once(monkeypatch):
    settings.reset()
    monkeypatch.setenv("OTEL_RL_SLOWEST", "many")

    assert settings.current().slowest == 5
    (complaint,) = settings.take_complaints()
    assert 'OTEL_RL_SLOWEST="many"' in complaint
    assert settings.take_complaints() == []
    settings.reset()


def test_the_process_parses_its_environment_once(monkeypatch):
    settings.reset()
    monkeypatch.setenv("OTEL_RL_SLOWEST", "9")
    first = settings.current()
    monkeypatch.setenv("OTEL_RL_SLOWEST", "10")

    assert settings.current() is first
    assert first.slowest == 9
    settings.reset()
