"""Which instrumentors are installed, and what each would do with the library that is installed here."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement

from otel_rl.core import instrumentor_status
from otel_rl.distro import loader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint

GROUP = "opentelemetry_instrumentor"
DISABLED = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
_PREFIX = "otel_rl_"
NOT_INSTALLED = "library not installed"
READY = "ready"
"""The library is here in a version that is supported: it will be instrumented once it is imported."""


def states(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """State, reason, supported and installed versions by entry-point name, ours first; nothing is patched."""
    disabled = {name.strip() for name in environ.get(DISABLED, "").split(",")}
    installed_ones = sorted(entry_points(group=GROUP), key=lambda point: (not _is_ours(point), point.name))
    results = {point.name: _state(point, disabled, environ) for point in installed_ones}
    for entry_point in filter(_is_ours, installed_ones):
        result = results[entry_point.name]
        if result["state"] == READY:
            kind = entry_point.load()
            _check_needs(kind.needs, result, results)
            result["training"] = dict(kind.training)
    return results


def _check_needs(libraries: Sequence[str], result: dict[str, Any], results: dict[str, dict[str, Any]]) -> None:
    reason = instrumentor_status.missing_need(tuple(f"{_PREFIX}{library}" for library in libraries), results)
    if reason:
        result.update(state=instrumentor_status.DEGRADED, reason=reason, problem=True)


def _is_ours(entry_point: EntryPoint) -> bool:
    return entry_point.name.startswith(_PREFIX)


def _state(entry_point: EntryPoint, disabled: set[str], environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        supported = _requirements(entry_point)
    except Exception as error:  # noqa: BLE001 - loading foreign code may fail in any way, and that is the finding
        return _result(instrumentor_status.FAILED, f"cannot be loaded: {type(error).__name__}: {error}", problem=True)
    supports = " or ".join(str(requirement) for requirement in supported)
    present = {
        requirement.name: number for requirement in supported if (number := installed(requirement.name)) is not None
    }
    versions = ", ".join(f"{name} {number}" for name, number in present.items())
    if disabled & {"*", entry_point.name}:
        return _result(instrumentor_status.SKIPPED, f"disabled by {DISABLED}", supports, versions)
    if unwanted := loader.why_unwanted(entry_point.name, environ):
        return _result(instrumentor_status.SKIPPED, unwanted, supports, versions)
    if supported and not present:
        return _result(instrumentor_status.SKIPPED, NOT_INSTALLED, supports, versions)
    if supported and not any(_fits(requirement, present) for requirement in supported):
        return _result(
            instrumentor_status.SKIPPED,
            f"supports {supports}, installed is {versions}",
            supports,
            versions,
            problem=True,
        )
    return _result(READY, "", supports, versions)


def _fits(requirement: Requirement, present: Mapping[str, str]) -> bool:
    present_version = present.get(requirement.name)
    return present_version is not None and requirement.specifier.contains(present_version, prereleases=True)


def _result(
    state: str, reason: str, supports: str = "", installed: str = "", *, problem: bool = False
) -> dict[str, Any]:
    result: dict[str, Any] = {"state": state, "reason": reason, "supports": supports, "installed": installed}
    return {**result, "problem": True} if problem else result


def _requirements(entry_point: EntryPoint) -> list[Requirement]:
    if _is_ours(entry_point):
        declared: Sequence[str] = entry_point.load().supported()
        return [Requirement(text) for text in declared]
    # What a contrib package instruments is its extra "instruments": read without importing the package.
    distribution = entry_point.dist
    lines = (requires(distribution.name) or []) if distribution is not None else []
    return [requirement for requirement in map(_requirement, lines) if requirement is not None]


def _requirement(line: str) -> Requirement | None:
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return None
    marker = requirement.marker
    if marker is None or "extra" not in str(marker):
        return None
    if not any(marker.evaluate({"extra": extra}) for extra in ("instruments", "instruments-any")):
        return None
    requirement.marker = None
    return requirement


def installed(name: str) -> str | None:
    """Installed version of a distribution."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
