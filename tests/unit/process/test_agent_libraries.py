"""The one table of libraries that run agents or call models is true of the instrumentors."""

from __future__ import annotations

from importlib.metadata import entry_points

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from otel_rl.process import agent_libraries

OURS = {one.name: one for one in entry_points(group="opentelemetry_instrumentor") if one.name.startswith("otel_rl_")}


def test_each_library_names_the_instrumentor_that_is_for_its_distribution():
    named = {
        library.instrumentor: canonicalize_name(library.distribution)
        for library in agent_libraries.LIBRARIES.values()
        if library.instrumentor is not None
    }
    covered = {
        name: [canonicalize_name(Requirement(one).name) for one in OURS[name].load().requirements] for name in named
    }
    assert {name: found for name, found in named.items() if found not in covered[name]} == {}


def test_the_module_that_shows_a_library_is_one_of_its_instrumentor():
    wrong = [
        module
        for module, library in agent_libraries.LIBRARIES.items()
        if library.instrumentor is not None
        and not any(
            trigger.split(".")[:2] == module.split(".")[:2] or trigger.split(".")[0] == module
            for trigger in OURS[library.instrumentor].load().triggers()
        )
    ]
    assert wrong == []


def test_of_what_is_loaded_only_what_no_active_instrumentor_records_is_named():
    states = {
        "otel_rl_smolagents": {"state": "active", "reason": ""},
        "otel_rl_dspy": {"state": "failed", "reason": "no"},
    }
    loaded = ["smolagents", "dspy", "agno", "cohere", "numpy"]
    assert agent_libraries.unrecorded(loaded, states, clients=False) == ["agno", "dspy"]
    assert agent_libraries.unrecorded(loaded, states, clients=True) == ["cohere"]
