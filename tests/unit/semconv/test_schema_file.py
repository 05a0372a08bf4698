"""The OpenTelemetry schema file that the schema URL names."""

from __future__ import annotations

import yaml

from instrumentation.registry import model
from otel_rl import semconv
from otel_rl.core import __version__

VERSION = semconv.SCHEMA_URL.rpartition("/")[2]
SCHEMA = yaml.safe_load((model.REGISTRY.parent / "schemas" / f"{VERSION}.yaml").read_text())
#: Sections of a version and what each lists, as file format 1.1.0 defines them.
SECTIONS = {"all", "resources", "spans", "span_events", "metrics", "logs"}


def test_the_schema_file_is_that_of_the_constant_and_of_this_version():
    assert SCHEMA["schema_url"] == semconv.SCHEMA_URL
    assert VERSION == __version__ == max(SCHEMA["versions"])


def test_the_schema_file_has_the_form_of_format_1_1_0():
    assert set(SCHEMA) == {"file_format", "schema_url", "versions"}
    assert SCHEMA["file_format"] == "1.1.0"
    for sections in SCHEMA["versions"].values():
        assert set(sections or {}) <= SECTIONS
        assert all(set(section) == {"changes"} for section in (sections or {}).values())
