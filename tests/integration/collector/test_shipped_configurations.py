"""Every combination of role, sinks and options is accepted, in two forms; what every shipped file keeps to."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from collector_process import COMMON, CONFIGURATION, FILE_SINK, CollectorProcess
from combinations import completed, covering, files_of, selections

from otel_rl.collector import composed
from otel_rl.collector.parts import choices, merge

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLE_FILES = [f"{role}.yaml" for role in choices.ROLES]
BASE_FILES = [COMMON, *ROLE_FILES]
COVERING = covering()
OTHERS = [selection for selection in selections() if selection not in COVERING]


def load(file: str) -> dict:
    return yaml.safe_load((CONFIGURATION / file).read_text())


def shipped_files() -> list[str]:
    return sorted(str(path.relative_to(CONFIGURATION)) for path in CONFIGURATION.rglob("*.yaml"))


def settings(values: dict, *path: str) -> Iterator[tuple[str, object]]:
    """Every setting with its path; a list is one, since the collector replaces it as a whole."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from settings(value, *path, name)
        else:
            yield "::".join((*path, name)), value


def resolved(collector: CollectorProcess) -> dict:
    """What the real program makes of the files of a collector."""
    command = [collector.command[0], "print-config", "--mode=unredacted", *collector.command[1:]]
    answer = subprocess.run(
        command,
        cwd=collector.folder,
        env=collector.environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return yaml.safe_load(answer.stdout)


def test_every_shipped_file_is_part_of_a_combination():
    parts = {part.name.partition(" for ")[0] for selection in selections() for part in choices.sources(selection)}
    assert set(shipped_files()) <= parts


@pytest.mark.parametrize("selection", COVERING, ids=choices.Selection.arguments)
def test_combination_is_the_same_in_one_file_and_in_several(
    otelcol_rl: Path, tmp_path: Path, needed_variables: dict[str, str], selection: choices.Selection
):
    """That these are accepted as well, test_combinations_start.py shows: it starts them."""
    selection = completed(selection, tmp_path, needed_variables)
    several = CollectorProcess(otelcol_rl, files_of(selection, tmp_path), tmp_path, needed_variables)
    collector = in_one_file(otelcol_rl, tmp_path, needed_variables, selection)
    several.environment = collector.environment
    assert resolved(collector) == resolved(several)


@pytest.mark.parametrize("selection", OTHERS, ids=choices.Selection.arguments)
def test_every_other_combination_is_accepted(
    otelcol_rl: Path, tmp_path: Path, needed_variables: dict[str, str], selection: choices.Selection
):
    selection = completed(selection, tmp_path, needed_variables)
    validated = in_one_file(otelcol_rl, tmp_path, needed_variables, selection).validate()
    assert validated.returncode == 0, validated.stderr


def in_one_file(
    otelcol_rl: Path, folder: Path, variables: dict[str, str], selection: choices.Selection
) -> CollectorProcess:
    one = folder / "one.yaml"
    one.write_text(composed.compose(selection, None).text)
    return CollectorProcess(otelcol_rl, [one], folder, variables)


@pytest.mark.parametrize("file", BASE_FILES)
def test_base_file_listens_on_this_machine_only_by_default(file: str):
    listening = re.findall(r"(?:endpoint|host): (\S+)", (CONFIGURATION / file).read_text())
    for address in listening:
        if "GATEWAY}" not in address:
            assert re.match(r"\$\{env:\w+:-127\.0\.0\.1(:\d+)?\}", address), address


@pytest.mark.parametrize("file", ROLE_FILES)
def test_a_role_says_nothing_again_that_the_common_file_says(file: str):
    common = dict(settings(load(COMMON)))
    assert [path for path, value in settings(load(file)) if path in common and common[path] == value] == []


@pytest.mark.parametrize("file", ROLE_FILES)
def test_a_role_leaves_the_redaction_to_the_common_file(file: str):
    assert not {"secret_redaction", "transform/event_name"} & set(load(file)["processors"])


@pytest.mark.parametrize("role", choices.ROLES)
def test_a_role_redacts_whatever_comes_over_otlp(role: str):
    selection = choices.Selection(role)
    pipelines = merge.merge(choices.sources(selection))["service"]["pipelines"]
    taking = [pipeline for pipeline in pipelines.values() if "otlp" in pipeline["receivers"]]
    assert len(taking) == len(("traces", "metrics", "logs"))
    assert all("secret_redaction" in pipeline["processors"] for pipeline in taking)


@pytest.mark.parametrize("file", ROLE_FILES)
def test_a_role_without_the_common_file_is_refused(otelcol_rl: Path, tmp_path: Path, file: str):
    collector = CollectorProcess(otelcol_rl, [file, FILE_SINK], tmp_path)
    collector.command = [word for word in collector.command if not word.endswith(COMMON)]
    collector.command.remove("--config")
    validated = collector.validate()
    assert validated.returncode != 0
    assert "not configured" in validated.stderr


def test_the_common_file_without_a_role_is_refused(otelcol_rl: Path, tmp_path: Path):
    validated = CollectorProcess(otelcol_rl, [COMMON, FILE_SINK], tmp_path).validate()
    assert validated.returncode != 0
    assert '"resource/role" which is not configured' in validated.stderr


@pytest.mark.parametrize("file", [f"sinks/{name}.yaml" for name in choices.SINKS])
def test_a_sink_only_adds_components_and_pipelines_that_start_at_the_hubs(file: str):
    sink = load(file)
    assert set(sink) <= {"extensions", "processors", "exporters", "service"}
    for base in BASE_FILES:
        assert not set(sink.get("processors", {})) & set(load(base).get("processors", {}))
    assert set(sink["service"]) == {"pipelines"}
    receivers = {receiver for pipeline in sink["service"]["pipelines"].values() for receiver in pipeline["receivers"]}
    hubs = {"forward/traces_out", "forward/metrics_out", "forward/logs_out"}
    traces_only = choices.SINKS[Path(file).stem].takes_traces_only
    assert receivers == ({"forward/traces_out"} if traces_only else hubs)


@pytest.mark.parametrize("selection", selections(), ids=choices.Selection.arguments)
def test_order_of_sinks_and_options_does_not_matter(selection: choices.Selection):
    sinks, options = list(reversed(selection.sinks)), list(reversed(selection.options))
    turned = choices.select(selection.role, sinks, options, selection.gateways)
    assert merge.merge(choices.sources(turned)) == merge.merge(choices.sources(selection))


def test_every_variable_is_in_the_readme_with_its_default():
    documented = (CONFIGURATION / "README.md").read_text()
    for file in shipped_files():
        for name, default in re.findall(r"\$\{env:(\w+)(?::-([^}]*))?\}", (CONFIGURATION / file).read_text()):
            row = next((line for line in documented.splitlines() if line.startswith(f"| `{name}` |")), None)
            assert row is not None, f"{name} of {file} is not in README.md"
            assert f"`{default}`" in row or not default, f"{name}: {default} of {file} is not in its row"


def test_a_taken_port_is_named_when_the_collector_cannot_start(otelcol_rl: Path, tmp_path: Path):
    with CollectorProcess(otelcol_rl, ["local.yaml"], tmp_path) as first:
        folder = tmp_path / "second"
        folder.mkdir()
        second = CollectorProcess(
            otelcol_rl, ["local.yaml"], folder, {"OTEL_RL_COLLECTOR_HTTP_PORT": str(first.http_port)}
        )
        with pytest.raises(AssertionError, match=f"{first.http_port}: bind: address already in use"):
            second.__enter__()


def test_gateway_without_a_sink_says_so(otelcol_rl: Path, tmp_path: Path):
    validated = CollectorProcess(otelcol_rl, ["gateway.yaml"], tmp_path).validate()
    assert validated.returncode != 0
    assert "no exporter" in validated.stderr


def test_agent_without_its_gateway_names_the_variable(otelcol_rl: Path, tmp_path: Path):
    agent = CollectorProcess(otelcol_rl, ["agent.yaml"], tmp_path)
    del agent.environment["OTEL_RL_COLLECTOR_GATEWAY"]
    with pytest.raises(AssertionError, match=r"(?s)OTEL_RL_COLLECTOR_GATEWAY.*endpoint"):
        agent.__enter__()
