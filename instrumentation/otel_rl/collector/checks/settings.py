"""Checks of settings that a site gives in a file of its own: those that an option leaves open, and impossible ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_rl.collector.checks.durations import nanoseconds
from otel_rl.collector.parts.merge import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NEVER_OPEN = ("username", "password_file", "filename", "file")
_LIMITED = ("extensions", "processors")
_WAITS = ("decision_wait", "decision_wait_after_root_received")


def left_open(configuration: Mapping[str, Any]) -> Iterator[str]:
    """Report names, files and headers without a value: an option leaves them to a file of the site."""
    for path, key, value in leaves(configuration):
        if value is None and (key in _NEVER_OPEN or path.removesuffix(f".{key}").endswith(".headers")):
            yield f"{path} has no value; write it into a file of yours and add --with-file FILE"


def memory(actual: Mapping[str, Any]) -> Iterator[str]:
    """Report memory limiters that would refuse data from the start; ``actual`` contains no variables."""
    for section in _LIMITED:
        for name, settings in (actual.get(section) or {}).items():
            if name.partition("/")[0] == "memory_limiter" and isinstance(settings, dict):
                limit, spike = settings.get("limit_mib"), settings.get("spike_limit_mib")
                if isinstance(limit, int) and isinstance(spike, int) and spike >= limit > 0:
                    yield (
                        f"{section}.{name}.spike_limit_mib ({spike}) is not below limit_mib ({limit}), so it would "
                        "refuse from the start; lower it, or raise OTEL_RL_COLLECTOR_MEMORY_LIMIT_MIB"
                    )


def waits(actual: Mapping[str, Any]) -> Iterator[str]:
    """Report a wait for the rest of a trace after its root that is longer than the wait for the root.

    ``actual`` contains no variables.
    """
    for name, settings in (actual.get("processors") or {}).items():
        if name.partition("/")[0] == "tail_sampling" and isinstance(settings, dict):
            decision, root = (str(settings.get(key, "")) for key in _WAITS)
            longest, after_root = nanoseconds(decision), nanoseconds(root)
            if longest and after_root is not None and after_root > longest:
                yield (
                    f"OTEL_RL_COLLECTOR_ROOT_WAIT ({root}) is longer than OTEL_RL_COLLECTOR_DECISION_WAIT ({decision}),"
                    " which a trace without a root waits; lower the first or raise the second"
                )


def fingerprints(actual: Mapping[str, Any]) -> Iterator[str]:
    """Report fingerprints that are on without a key; ``actual`` contains no variables."""
    for name, settings in (actual.get("processors") or {}).items():
        given = settings.get("fingerprints") if isinstance(settings, dict) else None
        if isinstance(given, dict) and given.get("enabled") is True and not given.get("key"):
            yield (
                f"processors.{name}.fingerprints are on, but OTEL_RL_COLLECTOR_FINGERPRINT_KEY is not set; set the "
                "same key on every node, or turn them off"
            )
