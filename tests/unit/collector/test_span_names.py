"""The span names in the gateway's conditions are those of the registry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from otel_rl.semconv import attributes, spans
from otel_rl.semconv.definitions import SpanDefinition

CONFIGURATION = Path(__file__).parents[3] / "collector-config"
REGISTRY = {
    definition.type: definition for definition in vars(spans).values() if isinstance(definition, SpanDefinition)
}
#: Their traces end long after they began, so they do not wait for the sampler.
LIFECYCLE = {"rl.run", "rl.run.part", "rl.checkpoint", "rl.checkpoint.persist", "rl.sync", "rl.weight_sync"}
#: They do not make a step of a trace. Rollouts have rewards, calls of an engine and services too.
NO_STEP = {
    "rl.reward",
    "rl.rollout",
    "rl.agent.node",
    "rl.engine.call",
    "rl.custom",
    "rl.worker.call",
    "rl.service.client",
    "rl.service.server",
}
STEP = {name for name in REGISTRY if name.startswith("rl.")} - LIFECYCLE - NO_STEP


def conditions(file: str) -> list[set[str]]:
    """The names of spans in each condition of a file."""
    text = (CONFIGURATION / file).read_text()
    found = re.findall(r'IsMatch\(span\.name, "\^rl\\+\.\(([^)]*)\)\$\$"\)', text)
    return [{"rl." + re.sub(r"\\+\.", ".", name) for name in one.split("|")} for one in found]


def test_the_gateway_knows_every_span_of_a_step_and_of_the_lifecycle_in_the_registry():
    assert conditions("gateway.yaml") == [STEP, LIFECYCLE]


def test_the_strict_overlay_lets_the_lifecycle_of_the_registry_pass():
    assert conditions("overlays/strict.yaml") == [LIFECYCLE]


@pytest.mark.parametrize("name", sorted(STEP - {"rl.loop", "rl.rank.step"}))
def test_what_counts_as_a_part_of_a_step_is_a_phase_in_the_registry(name):
    assert attributes.RL_PHASE in REGISTRY[name].attributes


def test_what_passes_to_llm_products_is_named_as_in_the_registry():
    text = (CONFIGURATION / "sinks/shared/llm_spans.yaml").read_text()
    ours = {name for name in re.findall(r'span\.attributes\["([^"]+)"\]', text) if name.startswith(("rl.", "gen_ai."))}
    assert ours <= {value for value in vars(attributes).values() if isinstance(value, str)}
    assert set(re.findall(r'span\.name != "([^"]+)"', text)) <= REGISTRY.keys()
