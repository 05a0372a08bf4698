"""An environment that says it holds another package's whole dependency tree, and what pip would do to it.

Nothing heavy is downloaded: pip resolves the tree from metadata alone, and the environment gets that metadata without
the files. To pip that is an environment where the package is installed.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support import distribution

RESOLVE_SECONDS = 120
# Resolving a tree takes up to a minute; people's environments are older than a week, so a week old tree is as good.
TREE_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True)
class Plan:
    """What pip would install: version and requirements of each package by its canonical name."""

    versions: Mapping[str, str]
    requirements: Mapping[str, tuple[Requirement, ...]]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, the pip that looks at it from outside, and what it says is installed."""

    pip: Path
    folder: Path
    installed: Plan


def empty_environment(pip: Path, folder: Path) -> Environment:
    """A virtual environment that holds nothing."""
    distribution.create_environment(folder)
    return Environment(pip, folder, _plan([]))


def environment_with(peer: str, pip: Path, folder: Path) -> Environment:
    """An environment in which `peer`, a requirement, is installed as far as pip can see."""
    distribution.create_environment(folder)
    tree = _tree(peer, pip, folder)
    site_packages = next(folder.glob("lib/python*/site-packages"))
    for metadata in tree:
        _pretend_installed(metadata, site_packages)
    return Environment(pip, folder, _plan(tree))


def plan_of_installing(requirement: str, environment: Environment) -> Plan:
    """What pip would add or change."""
    return _plan(_dry_run(environment.pip, environment.folder, requirement))


def changes(environment: Environment, plan: Plan) -> dict[str, str]:
    """The installed packages that pip would bring to another version, with both versions."""
    before = environment.installed.versions
    return {
        name: f"{before[name]} -> {version}"
        for name, version in plan.versions.items()
        if name in before and before[name] != version
    }


def broken_requirements(environment: Environment, plan: Plan) -> list[str]:
    """Requirements of installed packages that no longer hold once pip has done it."""
    versions = {**environment.installed.versions, **plan.versions}
    kept = {name: needs for name, needs in environment.installed.requirements.items() if name not in plan.versions}
    return [
        f"{name} needs {need}, would get {versions[canonicalize_name(need.name)]}"
        for name, needs in sorted(kept.items())
        for need in needs
        if canonicalize_name(need.name) in plan.versions
        and (need.marker is None or need.marker.evaluate({"extra": ""}))
        and not need.specifier.contains(versions[canonicalize_name(need.name)], prereleases=True)
    ]


def _tree(peer: str, pip: Path, folder: Path) -> list[dict[str, Any]]:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-rl"
    cache = Path(os.environ.get("OTEL_RL_CACHE_DIR") or base) / "peers"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stored = cache / f"{re.sub(r'[^a-z0-9]+', '-', peer)}-{version}.json"
    if stored.exists() and time.time() - stored.stat().st_mtime < TREE_SECONDS:
        return json.loads(stored.read_text())
    tree = _dry_run(pip, folder, peer)
    cache.mkdir(parents=True, exist_ok=True)
    written = stored.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(tree))
    written.replace(stored)
    return tree


def _dry_run(pip: Path, folder: Path, requirement: str) -> list[dict[str, Any]]:
    """The metadata of what pip would install."""
    # fast-deps reads a wheel's metadata by range requests instead of downloading gigabytes of wheels.
    options = ["--quiet", "--dry-run", "--use-feature=fast-deps", "--only-binary=:all:", "--report", "-"]
    command = [pip, "--python", folder, "install", *options, requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    kept = ("name", "version", "requires_dist", "provides_extra")
    return [
        {key: value for key, value in item["metadata"].items() if key in kept}
        for item in json.loads(done.stdout)["install"]
    ]


def _plan(tree: list[dict[str, Any]]) -> Plan:
    named = {canonicalize_name(metadata["name"]): metadata for metadata in tree}
    return Plan(
        versions={name: metadata["version"] for name, metadata in named.items()},
        requirements={
            name: tuple(Requirement(text) for text in metadata.get("requires_dist", ()))
            for name, metadata in named.items()
        },
    )


def _pretend_installed(metadata: Mapping[str, Any], site_packages: Path) -> None:
    name = metadata["name"].replace("-", "_")
    folder = site_packages / f"{name}-{metadata['version']}.dist-info"
    folder.mkdir()
    text = Message()
    text["Metadata-Version"] = "2.1"
    text["Name"] = metadata["name"]
    text["Version"] = metadata["version"]
    for requirement in metadata.get("requires_dist", ()):
        text["Requires-Dist"] = requirement
    for extra in metadata.get("provides_extra", ()):
        text["Provides-Extra"] = extra
    (folder / "METADATA").write_text(text.as_string())
    (folder / "INSTALLER").write_text("pip\n")
    (folder / "RECORD").write_text("")
