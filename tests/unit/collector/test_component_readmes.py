"""Each component of our own says in its README how stable it is, and why no upstream component serves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
COMPONENTS = sorted(file.parent for file in ROOT.glob("otelcol-builder/components/*/*/metadata.yaml"))


def described(folder):
    """The metadata of a component's folder; a package of several components has theirs below it."""
    return [yaml.safe_load(file.read_text()) for file in sorted(folder.rglob("metadata.yaml"))]


@pytest.mark.parametrize("folder", COMPONENTS, ids=lambda folder: folder.name)
def test_a_readme_states_stability_signals_and_the_reason_of_a_component(folder):
    text = (folder / "README.md").read_text()
    (stated,) = re.findall(r"^Stability: \[(\w+)\]\(\S+\)(?: \((.+?)\))?", text, re.MULTILINE)
    for metadata in described(folder):
        ((level, signals),) = metadata["status"]["stability"].items()
        assert stated == (level, "" if signals == ["extension"] else ", ".join(signals))
    assert "\n## Why not an upstream component\n" in text
    # mdatagen writes documentation.md for a component that has metrics.
    assert ("](documentation.md)" in text) == any(folder.rglob("documentation.md"))


@pytest.mark.parametrize("folder", COMPONENTS, ids=lambda folder: folder.name)
def test_the_example_of_a_readme_configures_the_component(folder):
    (example,) = re.findall(r"```yaml\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    configured = yaml.safe_load(example)[f"{folder.parent.name}s"]
    assert configured.keys() & {metadata["type"] for metadata in described(folder)}
