"""The OpenTelemetry schema file that the schema URL names."""

from __future__ import annotations

import yaml

from instrumentation.registry import model
from otel_rl import semconv
from otel_rl.semconv import attributes

VERSION = semconv.SCHEMA_URL.rpartition("/")[2]
SCHEMA = yaml.safe_load((model.SCHEMAS / f"{VERSION}.yaml").read_text())
#: Sections of a version and what each lists, as file format 1.1.0 defines them.
SECTIONS = {"all", "resources", "spans", "span_events", "metrics", "logs"}


def test_the_schema_file_is_that_of_the_constant_and_of_the_latest_version():
    assert SCHEMA["schema_url"] == semconv.SCHEMA_URL
    assert max(SCHEMA["versions"], key=lambda version: [int(part) for part in version.split(".")]) == VERSION


def test_the_schema_file_names_all_versions_that_have_a_file_of_their_own():
    assert set(SCHEMA["versions"]) == {path.stem for path in model.SCHEMAS.glob("*.yaml")}


def test_a_former_name_is_no_attribute_any_more_and_its_successor_is_one():
    registry = model.resolve(model.read())

    assert semconv.RENAMED_ATTRIBUTES == {"rl.system": attributes.RL_SYSTEM_NAME}
    assert not semconv.RENAMED_ATTRIBUTES.keys() & registry.attributes.keys()
    assert set(semconv.RENAMED_ATTRIBUTES.values()) <= registry.attributes.keys()


def test_the_schema_file_has_the_form_of_format_1_1_0():
    assert set(SCHEMA) == {"file_format", "schema_url", "versions"}
    assert SCHEMA["file_format"] == "1.1.0"
    for sections in SCHEMA["versions"].values():
        assert set(sections or {}) <= SECTIONS
        assert all(set(section) == {"changes"} for section in (sections or {}).values())
