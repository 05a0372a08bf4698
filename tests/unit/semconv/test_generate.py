"""What is generated: the committed files are up to date, drift is seen, and the text does not depend on the place."""

import subprocess
import sys

import pytest

from instrumentation.registry import generate, model, render_docs, render_python, upstream
from otel_rl import semconv
from otel_rl.semconv import attributes, entities, events, metrics, spans


@pytest.fixture(scope="module")
def registry():
    return model.resolve(model.read())


@pytest.fixture(scope="module")
def files(registry):
    return generate.outputs(registry)


@pytest.fixture(scope="module")
def pages(registry):
    return render_docs.pages(registry)


@pytest.fixture
def written(files, tmp_path):
    generate.write(files, tmp_path)
    return tmp_path


def test_the_committed_files_are_what_the_registry_gives(files):
    assert generate.differences(files, generate.ROOT) == []


@pytest.mark.parametrize("page", ["attributes", "metrics", "events"])
def test_the_pages_that_say_who_defined_a_name_link_to_the_revision(files, page):
    text = files[generate.PAGES / f"{page}.md"]

    for pin in upstream.read().values():
        assert f"]({pin.url}/tree/{pin.revision})" in text


def test_the_same_registry_gives_the_same_bytes_in_another_process_and_folder(files, tmp_path):
    program = (
        "from instrumentation.registry import generate, model\nfrom pathlib import Path\n"
        "generate.write(generate.outputs(model.resolve(model.read())), Path.cwd())"
    )
    # Another hash seed orders sets otherwise; the folder has no settings of ruff.
    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": str(generate.ROOT)}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, timeout=300)

    assert generate.differences(files, tmp_path) == []


def test_a_changed_file_is_reported_and_left_alone(files, written, capsys):
    page = written / "docs/reference/metrics.md"
    page.write_text(page.read_text() + " ")

    assert generate.main(["--check"], root=written) == 1
    assert capsys.readouterr().err.splitlines()[0] == "docs/reference/metrics.md: differs from the registry"
    assert page.read_text().endswith(" ")


def test_a_missing_file_is_reported(files, written):
    (written / "docs/reference/spans.md").unlink()

    assert generate.differences(files, written) == ["docs/reference/spans.md: is missing"]


def test_a_file_of_an_earlier_registry_is_reported_and_removed_and_those_written_by_hand_are_left_alone(files, written):
    by_hand = [written / "docs/reference/settings.md", written / "instrumentation/otel_rl/semconv/definitions.py"]
    for path in by_hand:
        path.write_text("by hand")
    stray = written / "instrumentation/otel_rl/semconv/units.py"
    stray.write_text("")

    assert generate.differences(files, written) == [
        "instrumentation/otel_rl/semconv/units.py: is not generated from the registry any more"
    ]
    assert generate.main([], root=written) == 0
    assert not stray.exists()
    assert [path.read_text() for path in by_hand] == ["by hand", "by hand"]


def test_a_registry_with_a_fault_writes_nothing(tmp_path, capsys):
    registry = tmp_path / "registry"
    registry.mkdir()
    (registry / "manifest.yaml").write_text("description: no schema url")

    assert generate.main([], root=tmp_path, registry=registry) == 1
    assert "schema_url" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()


def test_every_attribute_has_a_constant_and_a_row(registry, pages):
    page = pages["attributes.md"]

    for key in registry.attributes:
        assert getattr(attributes, render_python.constant(key)) == key
        assert f"`{key}`" in page


@pytest.mark.parametrize(
    ("kind", "module"), [("metrics", metrics), ("spans", spans), ("events", events), ("entities", entities)]
)
def test_every_signal_has_a_definition_and_a_heading(registry, pages, kind, module):
    page = pages["resource.md" if kind == "entities" else f"{kind}.md"]

    for signal in getattr(registry, kind):
        definition = getattr(module, render_python.constant(signal.name))
        assert getattr(definition, "type", None) == signal.name or definition.name == signal.name
        assert definition.attributes == signal.keys
        assert f"## `{signal.name}`" in page


def test_enumerated_values_are_class_constants():
    assert attributes.RlPhaseValues.LOG_PROBS == "log_probs"
    assert attributes.GenAiProviderNameValues.AZURE_AI_OPENAI == "azure.ai.openai"


def test_buckets_units_and_budgets_come_from_the_registry():
    boundaries = metrics.RL_LOOP_DURATION.boundaries

    assert boundaries is not None
    assert (boundaries[0], boundaries[-1], len(boundaries)) == (0.005, 1310.72, 19)
    assert metrics.TORCH_DISTRIBUTED_COLLECTIVE_IO.unit == "By"
    assert attributes.CARDINALITY[attributes.RL_TRAINER_METRIC_KEY] == 300


def test_ids_and_content_are_listed():
    assert {attributes.RL_RUN_ID, attributes.RL_ROLLOUT_ID, attributes.RL_SAMPLE_ID} <= set(attributes.IDENTIFIERS)
    assert attributes.RL_ROLLOUT_ID in attributes.CORRELATION
    assert attributes.GEN_AI_INPUT_MESSAGES in attributes.CONTENT
    assert metrics.RL_TELEMETRY_DROPPED.name in metrics.SELF_TELEMETRY
    assert metrics.RL_LOOP_DURATION.name not in metrics.SELF_TELEMETRY


def test_the_constants_import_without_opentelemetry():
    program = (
        "import sys; from otel_rl.semconv import attributes, entities, events, metrics, spans; "
        "sys.exit(any(name.startswith('opentelemetry.') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_schema_url_is_that_of_the_manifest(registry):
    assert registry.schema_url == semconv.SCHEMA_URL
