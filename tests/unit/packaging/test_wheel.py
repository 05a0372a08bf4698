"""What `pip install otel-rl` gives to somebody who has no checkout."""

import json
import os
import subprocess
import zipfile

from instrumentation.registry import model
from otel_rl import semconv
from otel_rl.core import packaged_data

LIST_DATA = """
import json, otel_rl
from otel_rl.core import packaged_data
from typing import get_args
folders = {name: packaged_data.path(name) for name in get_args(packaged_data.Name)}
files = {name: sorted(str(f.relative_to(d)) for f in d.rglob("*") if f.is_file()) for name, d in folders.items()}
print(json.dumps({"package": otel_rl.__file__, "files": files}))
"""


def run(command, cwd):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=True, timeout=300)


def test_the_wheel_holds_the_package_its_types_and_no_tools_of_the_repository(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}

    assert tops == {"otel_rl", wheel.name.split("-py3")[0] + ".dist-info"}
    assert "otel_rl/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]
    assert not [name for name in names if "/testdata/" in name or name.endswith("_test.go")]


def test_every_part_of_the_packaged_data_resolves_to_the_files_of_the_checkout(installed, tmp_path):
    found = json.loads(run([installed / "python", "-c", LIST_DATA], tmp_path).stdout)

    assert str(installed.parent) in found["package"]
    for name, files in found["files"].items():
        source = packaged_data.path(name)
        assert files, name
        assert all((source / file).is_file() for file in files), name
    assert {"common.yaml", "local.yaml"} <= set(found["files"]["collector-config"])
    assert "manifest.yaml" in found["files"]["otelcol-builder"]
    assert {"go.mod", "go.sum"} <= set(found["files"]["otelcol-builder"])
    assert "components/processor/secretredactionprocessor/factory.go" in found["files"]["otelcol-builder"]
    assert "compose.yaml" in found["files"]["compose"]
    assert any(file.startswith("generated/grafana/") for file in found["files"]["dashboards"])
    assert any(file.startswith("generated/prometheus/") for file in found["files"]["dashboards"])
    assert any(file.startswith("runbooks/") for file in found["files"]["dashboards"])


def test_the_wheel_holds_the_file_that_the_schema_url_names(wheel):
    version = semconv.SCHEMA_URL.rpartition("/")[2]
    text = zipfile.ZipFile(wheel).read(f"otel_rl/_data/schemas/{version}.yaml").decode()

    assert text == (model.REGISTRY.parent / "schemas" / f"{version}.yaml").read_text()


def test_the_command_starts_without_any_extra(installed, tmp_path):
    shown = run([installed / "otel-rl", "--help"], tmp_path).stdout

    assert "report" in shown
    assert "doctor" in shown


def test_a_command_that_lacks_its_extra_says_how_to_get_it(installed, tmp_path):
    command = [installed / "otel-rl", "collector", "config", "--role", "local"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 2
    assert "install otel-rl with its extra `collector`" in done.stderr


def test_opentelemetry_instrument_runs_a_program_in_a_fresh_environment(installed, tmp_path):
    # A real user's first contact: only what the wheel depends on, no server, no variable.
    command = [installed / "opentelemetry-instrument", installed / "python", "-c", "print('done')"]

    assert run(command, tmp_path).stdout == "done\n"
