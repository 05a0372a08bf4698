"""Every OTEL_RL_* variable, parsed once."""

from __future__ import annotations

import pytest

from otel_rl import settings


def load(**environ: str) -> tuple[settings.Settings, list[str]]:
    lines: list[str] = []
    return settings.load(environ, lines.append), lines


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
        ("OTEL_RL_FILE_MAX_BYTES", "-5", "67108864"),
        ("OTEL_RL_DATA_MAX_BYTES", "manyMiB", "1073741824"),
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


def test_empty_variable_counts_as_unset():
    assert load(OTEL_RL_EXIT_TIMEOUT="  ") == (settings.Settings(), [])


def test_every_field_has_a_variable_and_a_line_in_the_manual():
    for variable in settings.VARIABLES:
        assert f"``{variable}``" in (settings.__doc__ or "")
    assert set(settings.VARIABLES.values()) == set(settings.Settings.__dataclass_fields__)


def test_the_process_parses_its_environment_once(monkeypatch):
    settings.reset()
    monkeypatch.setenv("OTEL_RL_SLOWEST", "9")
    first = settings.current()
    monkeypatch.setenv("OTEL_RL_SLOWEST", "10")

    assert settings.current() is first
    assert first.slowest == 9
    settings.reset()
