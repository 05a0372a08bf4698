"""The live check finds each kind of departure from the registry, and nothing in telemetry that follows it."""

import copy
import json

import pytest
from conformance import live_check

from otel_rl import semconv
from otel_rl.semconv import attributes, events, metrics, spans

RESOURCE = [
    {"key": attributes.SERVICE_INSTANCE_ID, "value": {"stringValue": "one"}},
    {"key": attributes.RL_RUN_ID, "value": {"stringValue": "run"}},
    {"key": attributes.RL_RANK, "value": {"intValue": "0"}},
    {"key": "cloud.region", "value": {"stringValue": "a user's own"}},
]


def text(key, value):
    return {"key": key, "value": {"stringValue": value}}


def number(key, value):
    return {"key": key, "value": {"intValue": str(value)}}


def span():
    return {
        "name": "chat tiny",
        "kind": 3,
        "attributes": [
            text(attributes.GEN_AI_OPERATION_NAME, "chat"),
            text(attributes.GEN_AI_PROVIDER_NAME, "a new provider"),
            text(attributes.GEN_AI_REQUEST_MODEL, "tiny"),
            {
                "key": attributes.GEN_AI_RESPONSE_FINISH_REASONS,
                "value": {"arrayValue": {"values": [{"stringValue": "stop"}]}},
            },
            text(attributes.RL_ROLLOUT_ID, "from baggage"),
        ],
    }


def rank_step():
    return {
        "name": spans.RL_RANK_STEP.type,
        "kind": 1,
        "attributes": [number(attributes.RL_LOOP_ITERATION, 1)],
        "events": [
            {
                "name": events.TORCH_DISTRIBUTED_COLLECTIVE.name,
                "attributes": [
                    text(attributes.TORCH_DISTRIBUTED_OPERATION, "all_reduce"),
                    {"key": attributes.TORCH_DISTRIBUTED_DURATION, "value": {"doubleValue": 0.1}},
                ],
            }
        ],
    }


def histogram():
    point = {
        "attributes": [text(attributes.RL_PHASE, "generate")],
        "explicitBounds": list(metrics.RL_PHASE_DURATION.boundaries),
        "count": "1",
    }
    return {"name": metrics.RL_PHASE_DURATION.name, "unit": "s", "histogram": {"dataPoints": [point]}}


def counter():
    return {"name": metrics.RL_TRAIN_STEPS.name, "unit": "{step}", "sum": {"isMonotonic": True, "dataPoints": [{}]}}


def record():
    return {"eventName": events.RL_STEP.name, "attributes": [number(attributes.RL_LOOP_ITERATION, 3)]}


def findings(
    folder, *, spans=(), metrics=(), records=(), scope="otel_rl.test", schema_url=semconv.SCHEMA_URL, resource=RESOURCE
):
    """Write one file per signal as the file store does, and check the folder."""
    for name, group, item, items in (
        ("traces", "Spans", "spans", spans),
        ("metrics", "Metrics", "metrics", metrics),
        ("logs", "Logs", "logRecords", records),
    ):
        scoped = {"scope": {"name": scope}, "schemaUrl": schema_url, item: items}
        line = {f"resource{group}": [{"resource": {"attributes": resource}, f"scope{group}": [scoped]}]}
        (folder / f"{name}-0001.jsonl").write_text(json.dumps(line) + "\n")
    return [str(finding) for finding in live_check.check(folder)]


def test_telemetry_that_follows_the_registry_gives_no_finding(tmp_path):
    found = findings(tmp_path, spans=[span(), rank_step()], metrics=[histogram(), counter()], records=[record()])

    assert found == []


def test_what_other_scopes_report_is_theirs(tmp_path):
    other = {"name": "anything", "kind": 1, "attributes": [text("x.y", "z")]}

    assert findings(tmp_path, spans=[other], scope="opentelemetry.instrumentation.httpx", schema_url="") == []


def test_a_collectors_copy_of_the_event_name_is_expected(tmp_path):
    copied = record()
    copied["attributes"].append(text("event.name", events.RL_STEP.name))

    assert findings(tmp_path, records=[copied]) == []


SPAN_FAULTS = {
    "unknown name": (lambda s: s.update(name="made up"), "made up: no span of the registry has this name"),
    "name of another model": (
        lambda s: s.update(name="chat large"),
        "chat large: no span of the registry has this name",
    ),
    "kind": (lambda s: s.update(kind=5), "chat tiny: kind is consumer, not client"),
    "unknown attribute": (
        lambda s: s["attributes"].append(text("rl.made.up", "x")),
        "chat tiny: carries attribute rl.made.up, which the registry does not have there",
    ),
    "attribute of another span": (
        lambda s: s["attributes"].append(text(attributes.RL_AGENT_NODE_NAME, "x")),
        f"chat tiny: carries attribute {attributes.RL_AGENT_NODE_NAME}, which the registry does not have there",
    ),
    "attribute type": (
        lambda s: s["attributes"].append(text(attributes.GEN_AI_USAGE_INPUT_TOKENS, "12")),
        f"chat tiny: attribute {attributes.GEN_AI_USAGE_INPUT_TOKENS} is of type string, not int",
    ),
    "required attribute": (
        lambda s: s["attributes"].pop(1),
        f"chat tiny: lacks required attribute {attributes.GEN_AI_PROVIDER_NAME}",
    ),
    "value of ours": (
        lambda s: s["attributes"].append(text(attributes.RL_INFERENCE_STREAM_ENDED, "somehow")),
        "chat tiny: attribute rl.inference.stream.ended has value 'somehow', which the registry does not list",
    ),
    "span event": (
        lambda s: s.update(events=[{"name": "made up"}]),
        "chat tiny: event made up: event name 'made up' is not in the registry",
    ),
}


@pytest.mark.parametrize("fault", SPAN_FAULTS)
def test_a_fault_of_a_span_is_found(tmp_path, fault):
    plant, message = SPAN_FAULTS[fault]
    planted = span()
    plant(planted)

    assert findings(tmp_path, spans=[planted]) == [f"traces-0001.jsonl:1: {message}"]


METRIC_FAULTS = {
    "unknown name": (lambda m: m.update(name="rl.made.up"), "rl.made.up: is not in the registry"),
    "unit": (lambda m: m.update(unit="ms"), "rl.phase.duration: unit is 'ms', not 's'"),
    "instrument": (
        lambda m: m.update(gauge=m.pop("histogram")),
        "rl.phase.duration: instrument is gauge, not histogram",
    ),
    "buckets": (
        lambda m: m["histogram"]["dataPoints"][0].update(explicitBounds=[1.0]),
        "rl.phase.duration: buckets are [1.0], not [0.005, ",
    ),
    "id as attribute": (
        lambda m: m["histogram"]["dataPoints"][0]["attributes"].append(text(attributes.RL_RUN_ID, "run")),
        "rl.phase.duration: carries attribute rl.run.id, which the registry does not have there",
    ),
    "required attribute": (
        lambda m: m["histogram"]["dataPoints"][0].update(attributes=[]),
        "rl.phase.duration: lacks required attribute rl.phase",
    ),
}


@pytest.mark.parametrize("fault", METRIC_FAULTS)
def test_a_fault_of_a_metric_is_found(tmp_path, fault):
    plant, message = METRIC_FAULTS[fault]
    planted = histogram()
    plant(planted)

    [found] = findings(tmp_path, metrics=[planted])

    assert found.startswith(f"metrics-0001.jsonl:1: {message}")


def test_a_counter_that_may_fall_is_found(tmp_path):
    falling = counter()
    falling["sum"]["isMonotonic"] = False

    assert findings(tmp_path, metrics=[falling]) == [
        "metrics-0001.jsonl:1: rl.train.steps: instrument is updowncounter, not counter"
    ]


def test_more_values_than_the_budget_are_found_over_all_lines_of_a_process(tmp_path):
    names = [f"group-{number}" for number in range(33)]
    points = [
        {
            "attributes": [
                text(attributes.TORCH_DISTRIBUTED_OPERATION, "all_reduce"),
                text(attributes.TORCH_DISTRIBUTED_GROUP_NAME, name),
            ]
        }
        for name in names
    ]
    metric = {
        "name": metrics.TORCH_DISTRIBUTED_COLLECTIVE_CALLS.name,
        "unit": "{call}",
        "sum": {"isMonotonic": True, "dataPoints": points},
    }
    fewer = copy.deepcopy(metric)
    fewer["sum"]["dataPoints"].pop()

    assert findings(tmp_path, metrics=[fewer]) == []
    [found] = findings(tmp_path, metrics=[metric])
    assert found.endswith("attribute torch.distributed.group.name took 33 values in one process, its budget is 32")


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        ({"eventName": "rl.made.up"}, "rl.made.up: event name 'rl.made.up' is not in the registry"),
        ({"body": {"stringValue": "plain log"}}, "record: has no event name"),
        (
            {"eventName": "rl.run.configuration"},
            "rl.run.configuration: lacks required attribute rl.run.configuration.source",
        ),
    ],
)
def test_a_fault_of_an_event_is_found(tmp_path, planted, message):
    assert findings(tmp_path, records=[planted]) == [f"logs-0001.jsonl:1: {message}"]


def test_a_program_may_report_events_of_its_own_names_through_the_producer_api(tmp_path):
    own = {"eventName": "my_team.buffer.reset", "attributes": [text("my_team.size", "3")]}

    assert findings(tmp_path, records=[own], scope="otel_rl.api") == []
    assert findings(tmp_path, records=[{"eventName": "rl.made.up"}], scope="otel_rl.api") != []


def test_a_resource_attribute_of_ours_that_the_registry_lacks_is_found(tmp_path):
    found = findings(tmp_path, spans=[span()], resource=[*RESOURCE, text("rl.made.up", "x")])

    assert (
        "traces-0001.jsonl:1: resource: carries attribute rl.made.up, which the registry does not have there" in found
    )


def test_another_schema_url_is_found(tmp_path):
    found = findings(tmp_path, spans=[span()], schema_url="https://example.org/0")

    assert found[0].startswith("logs-0001.jsonl:1: otel_rl.test: schema URL is 'https://example.org/0', not ")


def test_a_half_written_line_is_found_and_the_others_are_still_judged(tmp_path):
    findings(tmp_path, spans=[{**span(), "kind": 5}])
    with (tmp_path / "traces-0001.jsonl").open("a") as file:
        file.write('{"resourceSpans": [{"reso')

    assert [str(finding) for finding in live_check.check(tmp_path)] == [
        "traces-0001.jsonl:1: chat tiny: kind is consumer, not client",
        "traces-0001.jsonl:2: line: is no JSON object",
    ]


def test_files_in_the_folders_of_several_processes_are_read(tmp_path):
    for process in ("host-rank0-aa", "host-rank1-bb"):
        (tmp_path / process).mkdir()
        findings(tmp_path / process, spans=[{**span(), "name": "made up"}])

    assert [finding.place for finding in live_check.check(tmp_path)] == [
        "host-rank0-aa/traces-0001.jsonl:1",
        "host-rank1-bb/traces-0001.jsonl:1",
    ]
