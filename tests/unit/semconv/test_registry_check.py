"""The checker names the file, the definition and the fault."""

import copy
import shutil
from pathlib import Path

import pytest
import yaml

from instrumentation.registry import check, model

SOUND = {
    "file_format": "definition/2",
    "attributes": [
        {
            "key": "rl.color",
            "type": "string",
            "brief": "Color",
            "stability": "development",
            "examples": ["red"],
            "annotations": {"otel_rl": {"cardinality": 3}},
        },
        {
            "key": "rl.thing.id",
            "type": "string",
            "brief": "Identity",
            "stability": "development",
            "examples": ["a"],
            "annotations": {"otel_rl": {"identifier": True}},
        },
    ],
    "attribute_groups": [{"id": "rl.look", "visibility": "internal", "attributes": [{"ref": "rl.color"}]}],
    "metrics": [
        {
            "name": "rl.thing.duration",
            "instrument": "histogram",
            "unit": "s",
            "brief": "Duration",
            "stability": "development",
            "requirement_level": "recommended",
            "attributes": [{"ref_group": "rl.look"}],
            "annotations": {"otel_rl": {"boundaries": [0.1, 1]}},
        },
        {
            "name": "rl.thing.count",
            "instrument": "counter",
            "unit": "{thing}",
            "brief": "Things",
            "stability": "development",
            "requirement_level": "recommended",
        },
    ],
    "spans": [
        {
            "type": "rl.thing",
            "kind": "internal",
            "name": {"note": "rl.thing"},
            "brief": "A thing",
            "stability": "development",
            "requirement_level": "recommended",
            "attributes": [{"ref": "rl.thing.id", "requirement_level": "required"}],
        }
    ],
}


def problems(folder, data, manifest=None):
    (folder / "things.yaml").write_text(yaml.safe_dump(data))
    (folder / "manifest.yaml").write_text(
        yaml.safe_dump(manifest or {"schema_url": "https://example.org/schemas/1.0.0"})
    )
    return [str(problem) for problem in check.check(folder)]


def test_the_shipped_registry_is_well(capsys):
    assert check.main([]) == 0
    assert "registry is well" in capsys.readouterr().out


def test_a_sound_registry_gives_no_problem(tmp_path):
    assert problems(tmp_path, SOUND) == []


def remove_attribute(data):
    del data["attributes"][0]


def remove_group(data):
    del data["attribute_groups"]


def repeat_attribute(data):
    data["attributes"].append(data["attributes"][0])


def same_constant(data):
    data["spans"].append({**data["spans"][0], "type": "rl_thing.x"})
    data["spans"].append({**data["spans"][0], "type": "rl.thing.x"})


def same_name_in_another_kind(data):
    span = data["spans"][0]
    data["events"] = [{"name": "rl.thing", **{key: span[key] for key in ("brief", "stability", "requirement_level")}}]


def malformed_name(data):
    data["metrics"][1]["name"] = "rl.Thing-Count"


def bad_unit(data):
    data["metrics"][0]["unit"] = "seconds"


def identifier_on_metric(data):
    data["metrics"][1]["attributes"] = [{"ref": "rl.thing.id"}]


def identifier_in_group_of_metric(data):
    data["attribute_groups"][0]["attributes"] = [{"ref": "rl.thing.id"}]


def no_budget(data):
    del data["attributes"][0]["annotations"]


def descending_boundaries(data):
    data["metrics"][0]["annotations"]["otel_rl"]["boundaries"] = [1, 0.1]


def no_boundaries(data):
    del data["metrics"][0]["annotations"]


def boundaries_of_a_counter(data):
    data["metrics"][1]["annotations"] = {"otel_rl": {"boundaries": [1, 2]}}


def example_of_another_type(data):
    data["attributes"][0]["examples"] = [7]


def foreign_namespace(data):
    data["attributes"][1]["key"] = "http.thing"
    data["spans"][0]["attributes"] = []


def key_is_a_namespace(data):
    data["attributes"][1]["key"] = "rl.color.depth"
    data["spans"][0]["attributes"] = []


def more_values_than_budget(data):
    members = [{"id": id_, "value": id_, "brief": id_, "stability": "development"} for id_ in "abcd"]
    data["attributes"][0]["type"] = {"members": members}


def circle_of_groups(data):
    data["attribute_groups"][0]["attributes"] = [{"ref_group": "rl.look"}]


def attribute_twice(data):
    data["metrics"][0]["attributes"].append({"ref": "rl.color"})


def unknown_field(data):
    data["metrics"][0]["units"] = "s"


def unknown_annotation(data):
    data["attributes"][0]["annotations"]["otel_rl"]["cardinalty"] = 3


def no_stability(data):
    del data["spans"][0]["stability"]


def unknown_kind(data):
    data["spans"][0]["kind"] = "local"


def unknown_requirement(data):
    data["spans"][0]["attributes"][0]["requirement_level"] = "maybe"


def brief_as_a_question(data):
    data["spans"][0]["brief"] = "Whether it is a thing"


def upstream_without_a_revision(data):
    data["metrics"][1]["annotations"] = {"otel_rl": {"upstream": "things-of-others"}}


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (remove_attribute, "things.yaml: rl.look: refers to attribute rl.color, which is not defined"),
        (remove_group, "things.yaml: rl.thing.duration: refers to attribute group rl.look, which is not defined"),
        (repeat_attribute, "things.yaml: rl.color: is already taken by rl.color in things.yaml"),
        (same_constant, "things.yaml: rl.thing.x: is already taken by rl_thing.x in things.yaml"),
        (same_name_in_another_kind, "things.yaml: rl.thing: is already taken by rl.thing in things.yaml"),
        (malformed_name, "things.yaml: rl.Thing-Count: must be lower-case words joined by"),
        (bad_unit, "things.yaml: rl.thing.duration: unit 'seconds' is not one of the UCUM units"),
        (identifier_on_metric, "things.yaml: rl.thing.count: attribute rl.thing.id identifies single things"),
        (
            identifier_in_group_of_metric,
            "things.yaml: rl.thing.duration: attribute rl.thing.id identifies single things",
        ),
        (no_budget, "things.yaml: rl.thing.duration: attribute rl.color has no cardinality budget"),
        (descending_boundaries, "things.yaml: rl.thing.duration: boundaries must ascend"),
        (no_boundaries, "things.yaml: rl.thing.duration: is a histogram without boundaries"),
        (boundaries_of_a_counter, "things.yaml: rl.thing.count: has boundaries but is no histogram"),
        (example_of_another_type, "things.yaml: rl.color: example 7 is not of type string"),
        (foreign_namespace, "things.yaml: http.thing: is outside rl.* and torch.distributed.*"),
        (key_is_a_namespace, "things.yaml: rl.color: is also the namespace of rl.color.depth"),
        (more_values_than_budget, "things.yaml: rl.color: has more values than its cardinality budget of 3"),
        (circle_of_groups, "things.yaml: rl.look: attribute groups refer to each other in a circle: rl.look > rl.look"),
        (attribute_twice, "things.yaml: rl.thing.duration: names attribute rl.color twice"),
        (
            unknown_field,
            "things.yaml: rl.thing.duration: Additional properties are not allowed ('units' was unexpected)",
        ),
        (unknown_annotation, "things.yaml: rl.color annotations otel_rl: Additional properties are not allowed"),
        (no_stability, "things.yaml: rl.thing: 'stability' is a required property"),
        (unknown_kind, "things.yaml: rl.thing kind: 'local' is not one of ['internal', 'client'"),
        (unknown_requirement, "things.yaml: rl.thing attributes 0 requirement_level: 'maybe' is not one of"),
        (brief_as_a_question, "things.yaml: rl.thing brief: 'Whether it is a thing' does not match"),
        (
            upstream_without_a_revision,
            "things.yaml: rl.thing.count: upstream things-of-others has no revision in upstream.yaml",
        ),
    ],
)
def test_a_planted_fault_is_named(tmp_path, plant, message):
    data = copy.deepcopy(SOUND)
    plant(data)

    found = problems(tmp_path, data)

    assert any(problem.startswith(message) for problem in found), found


@pytest.mark.parametrize("revision", ["main", "HEAD", "b694ec3", "", "v1.44", None])
def test_a_revision_that_can_change_is_refused(tmp_path, revision):
    pins = tmp_path / "pins" / "upstream.yaml"
    pins.parent.mkdir()
    pins.write_text(yaml.safe_dump({"others": {"title": "Others", "url": "https://o.invalid", "revision": revision}}))
    shutil.copy(model.REGISTRY / "manifest.yaml", tmp_path)

    [problem] = check.check(tmp_path, pins)

    assert (
        str(problem) == f"upstream.yaml: others: revision {revision!r} is neither a version tag nor a whole commit hash"
    )


def test_a_name_defined_in_two_files_names_both(tmp_path):
    (tmp_path / "more.yaml").write_text(yaml.safe_dump({"file_format": "definition/2", "spans": SOUND["spans"]}))

    assert "things.yaml: rl.thing: is already taken by rl.thing in more.yaml" in problems(tmp_path, SOUND)


def test_a_file_in_another_form_is_named(tmp_path):
    found = problems(tmp_path, {"file_format": "definition/1", "groups": []})

    assert "things.yaml: file_format: 'definition/2' was expected" in found


def test_a_manifest_with_a_file_format_is_refused(tmp_path):
    manifest = {"file_format": "definition/2", "schema_url": "https://example.org/schemas/1.0.0"}

    [problem] = problems(tmp_path, SOUND, manifest)

    assert problem.startswith("manifest.yaml: file_format: must not be there")


def test_a_manifest_without_schema_url_is_refused(tmp_path):
    [problem] = problems(tmp_path, SOUND, {"description": "x"})

    assert problem.startswith("manifest.yaml: schema_url: must be an https address")


def test_a_missing_manifest_is_named(tmp_path):
    (tmp_path / "things.yaml").write_text(yaml.safe_dump(SOUND))

    [problem] = check.check(tmp_path)

    assert str(problem).startswith("manifest.yaml: manifest.yaml: is missing")


def test_yaml_that_cannot_be_read_is_one_line_with_its_place(tmp_path, capsys):
    shutil.copy(model.REGISTRY / "manifest.yaml", tmp_path)
    (tmp_path / "broken.yaml").write_text("file_format: definition/2\nattributes: [\n")

    assert check.main([str(tmp_path)]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("broken.yaml: line 3: ")


def test_the_command_fails_and_prints_each_problem_on_a_line(tmp_path, capsys):
    data = copy.deepcopy(SOUND)
    bad_unit(data)
    descending_boundaries(data)
    problems(tmp_path, data)

    assert check.main([str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_checker_reads_the_registry_of_this_checkout():
    assert Path(__file__).parents[3] / "instrumentation" / "registry" / "definitions" == model.REGISTRY
