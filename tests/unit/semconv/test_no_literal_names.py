"""No module outside `otel_rl.semconv` spells the name of an attribute, metric, span or event."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import otel_rl
from otel_rl.semconv import attributes, definitions, entities, events, metrics, spans

PACKAGE = Path(otel_rl.__file__).parent


def registry_names() -> set[str]:
    names = {value for key, value in vars(attributes).items() if key.isupper() and isinstance(value, str)}
    for module in (metrics, spans, events, entities):
        for value in vars(module).values():
            if isinstance(value, definitions.MetricDefinition | definitions.EventDefinition):
                names.add(value.name)
            elif isinstance(value, definitions.SpanDefinition | definitions.EntityDefinition):
                names.add(value.type)
    return names


def looks_like_a_name(names: set[str]) -> re.Pattern[str]:
    # torch.distributed also is a package of torch, whose modules hooks name: only the registry's parts of it count.
    parts = {re.escape(name.split(".")[2]) for name in names if name.startswith("torch.distributed.")}
    # So is mcp, with modules such as `mcp.client.session`: of it, only what begins as a name of the registry counts.
    begins = {".".join(name.split(".")[:3]) for name in names if re.match(r"mcp\.\w+\.", name)}
    ours = "|".join(sorted(map(re.escape, begins)))
    return re.compile(
        rf"(?:rl|gen_ai|hw)\.[a-z_.]+|(?:{ours})[a-z_.]*|torch\.distributed\.(?:{'|'.join(sorted(parts))})(?:[a-z_.]*)"
    )


def literals(source: str) -> Iterator[ast.Constant]:
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def spelled_names(source: str) -> list[tuple[int, str]]:
    names = registry_names()
    pattern = looks_like_a_name(names)
    return [
        (node.lineno, node.value) for node in literals(source) if node.value in names or pattern.fullmatch(node.value)
    ]


def test_no_module_spells_a_name_of_the_registry():
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if "semconv" not in path.relative_to(PACKAGE).parts]
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {name!r}"
        for path in modules
        for line, name in spelled_names(path.read_text())
    ]

    assert len(modules) > 10, "the walk must see the package"
    assert not found, "use the constants of otel_rl.semconv:\n" + "\n".join(found)


def test_a_spelled_name_is_found_with_its_line():
    source = (
        'import os\nspan.set_attribute("error.type", "x")\nkey = f"rl.reward.{name}"\nmade = {"gen_ai.made.up": 1}\n'
    )

    assert spelled_names(source) == [(2, "error.type"), (3, "rl.reward."), (4, "gen_ai.made.up")]


def test_docstrings_scope_names_and_torch_modules_are_no_names():
    source = (
        '"""rl.loop"""\nscope = Scope("otel_rl.openai")\nmodule = "torch.distributed.distributed_c10d"\n"error.type"\n'
    )

    assert spelled_names(source) == []
