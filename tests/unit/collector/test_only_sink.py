"""A sink that is the only one does not drop; beside others it does, so that it holds none of them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("ruamel.yaml")

from otel_rl.collector.parts import choices, merge

if TYPE_CHECKING:
    from pathlib import Path

OTLP, FILES = ("exporters", "durable_otlp_grpc/sink"), ("processors", "side_sink")
LOGFIRE = ("exporters", "durable_otlp_http/logfire")
SECOND = """\
exporters: {otlp_http/second: {endpoint: "https://second.invalid"}}
service: {pipelines: {logs/second: {receivers: [forward/logs_out], exporters: [otlp_http/second]}}}
"""


def when_full(component: tuple[str, str], *arguments: Any, **more: Any) -> str:
    configuration = merge.merge(choices.sources(choices.select(*arguments, **more)))
    return str(configuration[component[0]][component[1]]["when_full"])


@pytest.mark.parametrize(
    ("component", "role", "sinks", "expected"),
    [
        (OTLP, "gateway", ["otlp"], "wait"),
        (FILES, "gateway", ["file"], "push_back"),
        (FILES, "local", ["file"], "push_back"),
        (OTLP, "gateway", ["otlp", "file"], "drop"),
        (FILES, "gateway", ["otlp", "file"], "drop"),
        (OTLP, "local", ["otlp"], "drop"),
        (OTLP, "gateway", ["otlp", "langfuse"], "drop"),
        (LOGFIRE, "gateway", ["logfire"], "wait"),
        (LOGFIRE, "gateway", ["logfire", "phoenix"], "drop"),
    ],
)
def test_only_a_sink_beside_others_drops(component: tuple[str, str], role: str, sinks: list[str], expected: str):
    assert when_full(component, role, sinks) == expected


def test_what_only_shows_the_items_is_no_second_sink():
    assert when_full(OTLP, "gateway", ["otlp"], ["debug"]) == "wait"


def test_a_sink_of_the_site_is_a_second_one(tmp_path: Path):
    (tmp_path / "own.yaml").write_text(SECOND)
    assert when_full(OTLP, "gateway", ["otlp"], files=[tmp_path / "own.yaml"]) == "drop"


def test_the_word_of_the_site_counts_for_the_only_sink_too(tmp_path: Path):
    (tmp_path / "own.yaml").write_text("exporters: {durable_otlp_grpc/sink: {when_full: push_back}}\n")
    assert when_full(OTLP, "gateway", ["otlp"], files=[tmp_path / "own.yaml"]) == "push_back"


@pytest.mark.parametrize(("sinks", "mebibytes"), [(["otlp"], 256), (["otlp", "file"], 32)])
def test_only_the_only_sink_may_fill_much_of_the_memory_while_it_is_away(sinks: list[str], mebibytes: int):
    configuration = merge.merge(choices.sources(choices.select("gateway", sinks)))
    assert configuration["exporters"][OTLP[1]]["sending_queue"]["queue_size"] == mebibytes << 20


def test_the_only_sink_with_its_queue_on_disk_has_the_room_of_the_disk():
    configuration = merge.merge(choices.sources(choices.select("gateway", ["otlp"], ["durable"])))
    assert "QUEUE_BYTES" in configuration["exporters"][OTLP[1]]["sending_queue"]["queue_size"]
