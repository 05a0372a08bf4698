"""The committed build inputs agree with each other, and the built program is what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import build
import check
import go_build
import pytest
import yaml

from otel_rl.collector.checks import components

ROOT = Path(__file__).resolve().parents[3]
BUILDER = ROOT / "otelcol-builder"
MANIFEST = yaml.safe_load((BUILDER / "manifest.yaml").read_text())
KINDS = ("connectors", "exporters", "extensions", "processors", "providers", "receivers")
MODULES = {kind: dict(entry["gomod"].split() for entry in MANIFEST[kind]) for kind in KINDS}
OURS = {
    entry["gomod"].split()[0]: str(Path(entry["path"]))
    for kind in KINDS
    for entry in MANIFEST[kind]
    if "otel-rl.example" in entry["gomod"] and "path" in entry
}
OURS |= {line.split()[0]: line.rpartition(" => ../")[2] for line in MANIFEST["replaces"]}
"""Our own components, and what they share: module -> folder beside the manifest."""


def required(module_file: Path) -> dict[str, str]:
    """Modules and versions of a go.mod."""
    lines = re.findall(r"^(?:require )?\t?(\S+) (v\S+)(?: // indirect)?$", module_file.read_text(), re.MULTILINE)
    return dict(lines)


def test_locked_modules_are_those_of_the_manifest():
    locked = required(BUILDER / "go.mod")
    wanted = {module: version for kind in KINDS for module, version in MODULES[kind].items()}
    assert {module: locked.get(module) for module in wanted} == wanted


def test_no_component_is_locked_that_the_manifest_does_not_name():
    direct = re.findall(r"^\t(\S+) v\S+$", (BUILDER / "go.mod").read_text(), re.MULTILINE)
    components = [
        name for name in direct if re.search(r"/(receiver|processor|exporter|connector|extension|provider)/\w", name)
    ]
    assert set(components) <= {module for kind in KINDS for module in MODULES[kind]}


def version(text: str) -> tuple[int, ...]:
    """The numbers of v1.2.3; what follows them does not order the versions in use here."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def test_locked_modules_take_our_components_from_beside_the_manifest():
    replaced = re.findall(r"^replace (\S+) v\S+ => (\S+)$", (BUILDER / "go.mod").read_text(), re.MULTILINE)
    assert dict(replaced) == {module: f"../{folder}" for module, folder in OURS.items()}
    for module, folder in OURS.items():
        assert f"module {module}\n" in (BUILDER / folder / "go.mod").read_text()


@pytest.mark.parametrize("folder", sorted(set(OURS.values())))
def test_what_a_component_of_ours_needs_is_locked_in_no_older_version(folder: str):
    locked, wanted = required(BUILDER / "go.mod"), required(BUILDER / folder / "go.mod")
    only_in_tests = {module for module in wanted if module not in locked}
    assert not [module for module in only_in_tests if imported(BUILDER / folder, module)]
    assert not {module for module in wanted if module in locked and version(locked[module]) < version(wanted[module])}


def imported(folder: Path, module: str) -> bool:
    """Whether the program's part of a component imports a package of this module."""
    sources = (file for file in folder.rglob("*.go") if not file.name.endswith("_test.go"))
    return any(f'"{module}"' in text or f'"{module}/' in text for text in map(Path.read_text, sources))


def test_every_component_of_ours_is_built_locked_and_copied_into_the_image():
    assert set(build.COMPONENTS) == set(OURS.values())
    assert "COPY components components\n" in (BUILDER / "Dockerfile").read_text()
    assert "!components/**\n" in (BUILDER / ".dockerignore").read_text()
    assert " components " in (BUILDER / "relock.sh").read_text()


def test_a_changed_source_of_a_component_is_another_build_and_a_changed_test_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    builder = tmp_path / "otelcol-builder"
    shutil.copytree(BUILDER, builder)
    monkeypatch.setattr(build, "HERE", builder)
    component = builder / build.COMPONENTS[0]
    before = go_build.key_of(build.inputs(), [])
    (component / "another_test.go").write_text("package another")
    assert go_build.key_of(build.inputs(), []) == before
    (component / "another.go").write_text("package another")
    assert go_build.key_of(build.inputs(), []) != before


def generated(components: Path) -> dict[str, str]:
    files = (
        file for file in components.rglob("*") if file.name.startswith("generated_") or file.name == "documentation.md"
    )
    return {str(file.relative_to(components)): file.read_text() for file in files}


def test_generated_files_of_the_components_are_what_their_metadata_says(tmp_path: Path):
    components = tmp_path / "components"
    shutil.copytree(
        BUILDER / "components", components, ignore=shutil.ignore_patterns("generated_*", "documentation.md")
    )
    check.generate(go_build.go_command(), components)
    assert generated(components) == generated(BUILDER / "components")


def test_manifest_is_sorted_but_for_our_components():
    for kind in KINDS:
        others = [module for module in MODULES[kind] if module not in OURS]
        assert others == sorted(others)


def test_build_tags_are_the_same_everywhere():
    tags = MANIFEST["dist"]["build_tags"]
    for file in ("build.py", "Dockerfile", "relock.sh"):
        assert tags in (BUILDER / file).read_text(), file


def test_program_has_the_components_of_the_manifest_and_its_version(otelcol_rl: Path):
    answer = subprocess.run([otelcol_rl, "components"], capture_output=True, text=True, timeout=300, check=True)
    listed = yaml.safe_load(answer.stdout)
    assert listed["buildinfo"]["version"] == MANIFEST["dist"]["version"]
    for kind in KINDS:
        modules = {entry["module"].split()[0] for entry in listed[kind]}
        assert modules == set(MODULES[kind])


def test_command_line_knows_the_component_types_of_the_program(otelcol_rl: Path):
    answer = subprocess.run([otelcol_rl, "components"], capture_output=True, text=True, timeout=300, check=True)
    listed = yaml.safe_load(answer.stdout)
    known = {kind: set(types.values()) for kind, types in components.built().items()}
    assert known == {kind: {entry["name"] for entry in listed[kind]} for kind in components.KINDS}


def test_second_build_compiles_nothing_and_prints_the_path_last(otelcol_rl: Path):
    command = [sys.executable, BUILDER / "build.py"]
    again = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert again.stdout.splitlines()[-1] == str(otelcol_rl)
    assert again.stderr == ""


def test_builds_at_the_same_time_do_the_work_once_and_never_show_half_of_it(tmp_path: Path):
    target = tmp_path / "program" / "key"
    begun, may_end = threading.Event(), threading.Event()
    builds = []

    def build(staging: Path) -> None:
        builds.append(staging)
        (staging / "half").touch()
        begun.set()
        assert may_end.wait(300)
        (staging / "whole").touch()

    threads = [threading.Thread(target=go_build.build_once, args=(target, build)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(300)
    assert not target.exists()
    may_end.set()
    for thread in threads:
        thread.join(300)
    assert len(builds) == 1
    assert sorted(path.name for path in target.iterdir()) == ["half", "whole"]
    assert [path.name for path in target.parent.iterdir() if path != target] == ["key.lock"]


def test_failed_build_leaves_nothing_that_looks_built(tmp_path: Path):
    def build(staging: Path) -> None:
        go_build.run([sys.executable, "-c", "raise SystemExit(3)"], staging)

    with pytest.raises(go_build.BuildError, match="exit status 3"):
        go_build.build_once(tmp_path / "key", build)
    assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]


@pytest.mark.parametrize("version", ["go1.21.0", "nothing"])
def test_without_a_new_enough_go_the_packaged_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
):
    old = tmp_path / "bin" / "go"
    old.parent.mkdir()
    old.write_text(f"#!/bin/sh\necho go version {version} linux/amd64\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setenv("OTEL_RL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(go_build, "_install_go", lambda folder: (folder / "installed").touch())
    go = go_build.go_command()
    assert go.is_relative_to(tmp_path / "cache")
    assert (go.parents[2] / "installed").exists()


def test_the_uv_that_make_installed_serves_where_neither_pip_nor_uv_is_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    monkeypatch.setattr(go_build.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("UV", str(uv))
    assert go_build._installer() == [str(uv), "pip"]
