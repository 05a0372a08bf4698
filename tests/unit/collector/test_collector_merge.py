"""One file out of several: values as the collector merges them, comments and text as the sources have them."""

from __future__ import annotations

import pytest

pytest.importorskip("ruamel.yaml")

from ruamel.yaml import YAML

from otel_rl.collector.errors import Refused
from otel_rl.collector.parts import merge
from otel_rl.collector.parts.files import ConfigurationPart

BASE = ConfigurationPart(
    "base.yaml",
    """\
# base.yaml: what this is for.
#   command --config base.yaml
# More.
receivers:
  otlp: # the usual
    endpoint: here

  # About hosts.
  # Two lines of it.
  host: {interval: 15s}
processors:
  limit:
    mib: 512 # not more
    # Above spike.
    spike: 128
service:
  extensions: [health]
  pipelines:
    traces: {receivers: [otlp], exporters: [hub]}
""",
)


def other(text: str) -> ConfigurationPart:
    return ConfigurationPart("overlays/other.yaml", text)


def both(text: str) -> str:
    sources = [BASE, other(text)]
    result = merge.flatten(sources)
    assert YAML(typ="safe").load(result) == merge.merge(sources)
    return result


def test_maps_merge_and_lists_and_scalars_are_replaced():
    merged = merge.merge([BASE, other("processors: {limit: {spike: 64}}\nservice: {extensions: [storage]}")])
    assert merged["processors"] == {"limit": {"mib": 512, "spike": 64}}
    assert merged["service"]["extensions"] == ["storage"]
    assert merged["service"]["pipelines"]["traces"]["receivers"] == ["otlp"]


def test_what_one_source_alone_says_is_copied_with_its_comments():
    result = both("exporters:\n  # Why debug.\n  debug: {verbosity: detailed} # all of it\n")
    assert BASE.text.partition("receivers:")[2].partition("processors:")[0].rstrip() in result
    assert (
        "# from overlays/other.yaml\nexporters:\n  # Why debug.\n  debug: {verbosity: detailed} # all of it\n" in result
    )


def test_parts_of_one_section_say_where_each_comes_from():
    result = both("receivers:\n  extra: {}\n")
    assert "receivers:\n  # from base.yaml\n  otlp: # the usual\n" in result
    assert "  host: {interval: 15s}\n  # from overlays/other.yaml\n  extra: {}\n" in result


def test_a_replaced_value_says_what_it_replaces():
    result = both("processors:\n  limit:\n    spike: 64 # less\n")
    instead = "from overlays/other.yaml, instead of what base.yaml says"
    assert f"    mib: 512 # not more\n    # {instead}\n    spike: 64 # less\n" in result
    assert "128" not in result


def test_maps_in_flow_style_merge_too():
    result = both("service:\n  pipelines:\n    traces: {processors: [limit]}\n")
    assert (
        "      receivers: [otlp]\n      exporters: [hub]\n      # from overlays/other.yaml\n      processors: [limit]\n"
        in result
    )


def test_the_same_said_twice_is_said_once():
    result = both("processors:\n  limit: {mib: 512, spike: 128}\n")
    assert result.count("512") == 1
    assert "other" not in result


def test_sections_come_in_the_order_of_the_data():
    result = both("exporters: {debug: {}}\nextensions: {health: {}}\n")
    order = [line.rstrip(":") for line in result.splitlines() if line.endswith(":") and not line.startswith((" ", "#"))]
    assert [line for line in order if line in {"receivers", "processors", "service"}] == [
        "receivers",
        "processors",
        "service",
    ]
    assert result.index("extensions: {health") < result.index("receivers:") < result.index("exporters: {debug")


def test_text_over_several_lines_and_quotes_stay_as_they_are():
    lines = ["set: 'a(\"$$1\")' # why", "text: |", "  two", "", "  lines"]
    text = "\n    ".join(["processors:\n  transform:", *lines]) + "\n"
    assert text.partition("\n")[2].rstrip() in both(text)


def test_the_comment_at_the_top_goes_to_the_header_without_its_commands():
    assert merge.heading(BASE) == ["base.yaml: what this is for.", "More."]
    assert "what this is for" not in merge.flatten([BASE])


def test_a_source_that_is_no_yaml_is_named():
    with pytest.raises(Refused, match=r"overlays/other.yaml is not YAML"):
        merge.merge([BASE, other("a: [")])
    with pytest.raises(Refused, match=r"its top level is no map"):
        merge.merge([BASE, other("- a")])
