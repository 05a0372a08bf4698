"""Write the constants and the page of the health rules from `instrumentation/otel_rl/health/rules.yaml`.

Run it as `python -m instrumentation.health_rules`. With `--check` nothing is written, and the exit status is 1 when a
file differs from the rules.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from instrumentation import generated_files
from otel_rl.semconv import attributes, definitions, metrics

ROOT = Path(__file__).parents[1]
RULES = Path("instrumentation/otel_rl/health/rules.yaml")
TABLE = Path("instrumentation/otel_rl/health/rule_table.py")
PAGE = Path("docs/health.md")
BEGIN = "<!-- generated; edit instrumentation/otel_rl/health/rules.yaml and run `make generate` -->"
END = "<!-- end of the generated tables -->"
#: Limits that every rule has.
_STEPS = {"raise_after", "clear_after"}
#: Limits that delay a change of state; the page explains them once.
_DEBOUNCE = ("raise_after", "clear_after", "clear_share")
#: Brief of a limit that means the same as the one before it.
_AS_BEFORE = "the same"
_SOURCE = "P1 to P9 are those of Model Studio's diagnosis tree."

Item = dict[str, Any]


def read(path: Path) -> Item:
    """Return the rules, checked.

    Raises:
        ValueError: a rule, an input or a limit that cannot be; the message says which.
    """
    rules: Item = yaml.safe_load(path.read_text(encoding="utf-8"))
    codes = {value for key, value in vars(attributes.RlHealthCodeValues).items() if key.isupper()}
    if set(rules["rules"]) != codes:
        raise ValueError(f"rules and codes of the registry differ: {sorted(set(rules['rules']) ^ codes)}")
    for name, item in rules["inputs"].items():
        if item.get("metric") and item["metric"] not in _metrics():
            raise ValueError(f"input {name}: no metric {item['metric']} in the registry")
    for code, rule in rules["rules"].items():
        unknown = {name for needed in rule["needs"] for name in needed} - set(rules["inputs"])
        if unknown or not set(rule["limits"]) >= _STEPS:
            raise ValueError(f"rule {code}: unknown inputs {sorted(unknown)}, or no {', '.join(sorted(_STEPS))}")
        for name, limit in rule["limits"].items():
            if set(limit) != {"value", "unit", "brief"}:
                raise ValueError(f"rule {code}, limit {name}: must have value, unit and brief")
    return rules


def _metrics() -> dict[str, str]:
    """Name of each metric of the registry -> its constant."""
    return {item.name: name for name, item in vars(metrics).items() if isinstance(item, definitions.MetricDefinition)}


# -- constants ---------------------------------------------------------------------------------------------------------


def table(rules: Item) -> str:
    """Return the module with the constants."""
    lines = [
        '"""The health rules: generated; edit rules.yaml and run `make generate`."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING, Final",
        "",
        "from otel_rl.health.rule_definitions import Input, Limit, Rule",
        "from otel_rl.semconv import metrics",
        "",
        "if TYPE_CHECKING:",
        "    from collections.abc import Mapping",
        "",
        "INPUTS: Final[Mapping[str, Input]] = {",
        *(_input(name, item) for name, item in rules["inputs"].items()),
        "}",
        '"""Input -> what it is, and the keys of trainers that give it."""',
        "",
        "RULES: Final[Mapping[str, Rule]] = {",
        *(_rule(code, rule) for code, rule in rules["rules"].items()),
        "}",
        '"""Code -> rule."""',
    ]
    return generated_files.formatted("\n".join(lines) + "\n")


def _text(value: str) -> str:
    return json.dumps(value)


def _input(name: str, item: Item) -> str:
    metric = f", metrics.{_metrics()[item['metric']]}.name" if item.get("metric") else ""
    keys = ", ".join(map(_text, item["keys"]))
    others = ", ".join(map(_text, item.get("not_beside", ())))
    not_beside = f", not_beside=({others},)" if others else ""
    return f"{_text(name)}: Input({_text(item['brief'])}, {_text(item['unit'])}, ({keys},){metric}{not_beside}),"


def _rule(code: str, rule: Item) -> str:
    needs = ", ".join(f"({', '.join(map(_text, needed))},)" for needed in rule["needs"])
    limits = "".join(
        f"{_text(name)}: Limit({limit['value']!r}, {_text(limit['unit'])}, {_text(limit['brief'])}),"
        for name, limit in rule["limits"].items()
    )
    steps = ", ".join(map(_text, rule["next"]))
    return (
        f"{_text(code)}: Rule(title={_text(rule['title'])}, means={_text(rule['means'])}, needs=({needs},), "
        f"source={_text(rule['source'])}, limits={{{limits}}}, next_steps=({steps},)),"
    )


# -- page --------------------------------------------------------------------------------------------------------------


def page(rules: Item, before: str) -> str:
    """Return the page ``before`` with the tables of these rules."""
    return generated_files.with_block(before, BEGIN, END, _tables(rules))


def _tables(rules: Item) -> str:
    lines = ["| code | what it means | needs |", "|---|---|---|"]
    for code, rule in rules["rules"].items():
        needs = ", or ".join(" and ".join(f"`{name}`" for name in needed) for needed in rule["needs"])
        lines.append(f"| [`{code}`](#{code.lower()}) | {rule['means']} | {needs} |")
    lines += ["", "## Thresholds", "", _SOURCE, ""]
    for code, rule in rules["rules"].items():
        lines += [f"### {code}", "", f"Source: {rule['source']}. {_debounce(rule['limits'])}", ""]
        lines += [f"- {', '.join(names)}: {brief}" for brief, names in _briefs(rule["limits"])]
        lines.append("")
    lines += ["## Inputs", "", "Keys of each input, the most trusted first.", ""]
    for name, item in rules["inputs"].items():
        keys = [*item["keys"], *([item["metric"]] if item.get("metric") else [])]
        listed = ", ".join(f"`{key}`" for key in keys)
        if item.get("not_beside"):
            listed += f"; not beside {', '.join(f'`{key}`' for key in item['not_beside'])}"
        lines.append(f"- **`{name}`**{_unit(item['unit'])}, {item['brief']}: {listed}")
    return "\n".join(lines)


def _briefs(limits: Item) -> list[tuple[str, list[str]]]:
    """Return what limits are, each with its names and defaults; ``the same`` goes with the one before it."""
    found: list[tuple[str, list[str]]] = []
    for name, limit in limits.items():
        if name in _DEBOUNCE:
            continue
        if limit["brief"] != _AS_BEFORE:
            found.append((limit["brief"], []))
        found[-1][1].append(f"`{name}` {_quantity(limit)}")
    return found


def _quantity(limit: Item) -> str:
    """Return the default with its unit; a ratio has none."""
    return f"{limit['value']}{_unit(limit['unit'])}"


def _unit(unit: str) -> str:
    return "" if unit == "1" else f" `{unit}`"


def _debounce(limits: Item) -> str:
    """Return the sentence about the debounce, which every rule has."""
    return ", ".join(f"`{name}`: {limits[name]['value']}" for name in _DEBOUNCE if name in limits) + "."


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or compare; returns the exit status."""
    rules = read(root / RULES)
    before = (root / PAGE).read_text(encoding="utf-8")
    current = {root / TABLE: table(rules), root / PAGE: page(rules, before)}
    return generated_files.main("instrumentation.health_rules", RULES.name, current, arguments)


if __name__ == "__main__":
    sys.exit(main())
